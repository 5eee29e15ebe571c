SELECT p.name AS person, c.name AS city, count(q.id) AS friends, avg(q.age) AS mean_age
FROM person AS p
JOIN lives_in AS home ON home.src = p.id
JOIN city AS c ON c.id = home.dst
JOIN city_in AS cs ON cs.src = c.id
JOIN state AS s ON s.id = cs.dst
JOIN state_in AS sn ON sn.src = s.id
JOIN country AS n ON n.id = sn.dst
JOIN has_interest AS pi ON pi.src = p.id
JOIN interest AS i ON i.id = pi.dst
JOIN follows AS f ON f.src = p.id
JOIN person AS q ON q.id = f.dst
JOIN lives_in AS ql ON ql.src = q.id
JOIN city_in AS ds ON ds.src = ql.dst AND ds.dst = s.id
JOIN has_interest AS qi ON qi.src = q.id AND qi.dst = i.id
WHERE p.gender = 'female'
  AND n.name = :country
  AND i.name GLOB 'F*'
  AND p.age >= 25
  AND q.age <= :max_age
  AND home.since >= :since
  AND c.population > 10000
  AND q.name <> p.name
  AND NOT EXISTS (SELECT 1 FROM follows AS back WHERE back.src = q.id AND back.dst = p.id)
GROUP BY p.name, c.name
ORDER BY friends DESC, person ASC
LIMIT 20
