"""Turning texts into vectors: the providers that do it, and the pipeline over files of records."""

from omnigraph.execution.embed.embed_files import EmbedRequest as EmbedRequest
from omnigraph.execution.embed.embed_files import EmbedSummary as EmbedSummary
from omnigraph.execution.embed.embed_files import LineRange as LineRange
from omnigraph.execution.embed.embed_files import build_embed_text as build_embed_text
from omnigraph.execution.embed.embed_files import check_request as check_request
from omnigraph.execution.embed.embed_files import embed_file as embed_file
from omnigraph.execution.embed.embed_files import parse_selector as parse_selector
from omnigraph.execution.embed.embed_files import render_field as render_field
from omnigraph.execution.embed.embedder import BatchEmbedder as BatchEmbedder
from omnigraph.execution.embed.embedder import Embedder as Embedder
from omnigraph.execution.embed.embedder import TextRole as TextRole
from omnigraph.execution.embed.embedder import make_query_embedder as make_query_embedder
from omnigraph.execution.embed.embedder_choice import LazyEmbedder as LazyEmbedder
from omnigraph.execution.embed.embedder_choice import choose_model as choose_model
from omnigraph.execution.embed.embedder_choice import open_embedder as open_embedder
from omnigraph.execution.embed.rate_limit import PacedEmbedder as PacedEmbedder
from omnigraph.execution.embed.spec import EmbedSpec as EmbedSpec
from omnigraph.execution.embed.spec import parse_spec as parse_spec
from omnigraph.execution.embed.spec import read_manifest as read_manifest
from omnigraph.execution.embed.spec import read_spec as read_spec
