// The same questions in Cypher, in the form the study published, with ties ordered.

// q1: the three most followed persons
MATCH (follower:Person)-[:Follows]->(person:Person)
RETURN person.number AS number, person.name AS name, count(follower.number) AS followers
ORDER BY followers DESC, number LIMIT 3

// q2: where the most followed person lives
MATCH (follower:Person)-[:Follows]->(person:Person)
WITH person, count(follower.number) AS followers
ORDER BY followers DESC, person.number LIMIT 1
MATCH (person)-[:LivesIn]->(city:City)-[:CityIn]->(state:State)-[:StateIn]->(nation:Country)
RETURN person.number, person.name, city.name, state.name, nation.name, followers

// q3: the five cities of a country with the youngest persons
MATCH (person:Person)-[:LivesIn]->(city:City)-[:CityIn]->(:State)-[:StateIn]->(nation:Country)
WHERE nation.name = $country
RETURN city.number AS number, city.name AS city, avg(person.age) AS age
ORDER BY age, number LIMIT 5

// q4: persons of an age, by country
MATCH (person:Person)-[:LivesIn]->(:City)-[:CityIn]->(:State)-[:StateIn]->(nation:Country)
WHERE person.age >= $youngest AND person.age <= $oldest
RETURN nation.name AS nation, count(person) AS persons
ORDER BY persons DESC, nation LIMIT 3

// q5: how many persons of a city have an interest
MATCH (person:Person)-[:HasInterest]->(liked:Interest),
      (person)-[:LivesIn]->(home:City)-[:CityIn]->(:State)-[:StateIn]->(nation:Country)
WHERE liked.name = $interest AND person.gender = $gender
  AND home.name = $city AND nation.name = $country
RETURN count(person) AS persons

// q6: the five cities where most persons have an interest
MATCH (person:Person)-[:HasInterest]->(liked:Interest), (person)-[:LivesIn]->(city:City)
WHERE liked.name = $interest AND person.gender = $gender
RETURN city.number AS number, city.name AS city, count(person) AS persons
ORDER BY persons DESC, number LIMIT 5

// q7: the state of a country where most persons of an age have an interest
MATCH (person:Person)-[:HasInterest]->(liked:Interest),
      (person)-[:LivesIn]->(:City)-[:CityIn]->(state:State)-[:StateIn]->(nation:Country)
WHERE liked.name = $interest AND person.age >= $youngest AND person.age <= $oldest
  AND nation.name = $country
RETURN state.number AS number, state.name AS state, count(person) AS persons
ORDER BY persons DESC, number LIMIT 1

// q8: how many ways lead from a person over a second to a third
MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
RETURN count(*) AS paths

// q9: the same, through persons below one age to persons above another
MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
WHERE b.age < $below AND c.age > $above
RETURN count(*) AS paths

// point: one person by key
MATCH (person:Person) WHERE person.number = $number
RETURN person.number, person.name, person.age

// hops: everyone whose distance is at most so many hops
MATCH (start:Person)-[:Follows* SHORTEST 1..HOPS]->(person:Person)
WHERE start.number = $number AND person.number <> $number
RETURN count(*) AS persons, sum(person.number) AS numbers
