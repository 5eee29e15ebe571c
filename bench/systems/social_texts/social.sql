-- The same questions in SQL, over a table for each type of node and of edge.

-- q1: the three most followed persons
SELECT person.number, person.name, popular.followers
FROM (SELECT dst, count(*) AS followers FROM Follows GROUP BY dst) AS popular
JOIN Person AS person ON person.number = popular.dst
ORDER BY followers DESC, person.number LIMIT 3

-- q2: where the most followed person lives
WITH popular AS (
  SELECT dst, count(*) AS followers FROM Follows GROUP BY dst ORDER BY followers DESC, dst LIMIT 1
)
SELECT person.number, person.name, city.name, state.name, nation.name, popular.followers
FROM popular
JOIN Person AS person ON person.number = popular.dst
JOIN LivesIn ON LivesIn.src = person.number
JOIN City AS city ON city.number = LivesIn.dst
JOIN CityIn ON CityIn.src = city.number
JOIN State AS state ON state.number = CityIn.dst
JOIN StateIn ON StateIn.src = state.number
JOIN Country AS nation ON nation.number = StateIn.dst

-- q3: the five cities of a country with the youngest persons
SELECT city.number, city.name, avg(person.age) AS age
FROM Person AS person
JOIN LivesIn ON LivesIn.src = person.number
JOIN City AS city ON city.number = LivesIn.dst
JOIN CityIn ON CityIn.src = city.number
JOIN StateIn ON StateIn.src = CityIn.dst
JOIN Country AS nation ON nation.number = StateIn.dst
WHERE nation.name = $country
GROUP BY city.number, city.name
ORDER BY age, city.number LIMIT 5

-- q4: persons of an age, by country
SELECT nation.name, count(*) AS persons
FROM Person AS person
JOIN LivesIn ON LivesIn.src = person.number
JOIN CityIn ON CityIn.src = LivesIn.dst
JOIN StateIn ON StateIn.src = CityIn.dst
JOIN Country AS nation ON nation.number = StateIn.dst
WHERE person.age >= $youngest AND person.age <= $oldest
GROUP BY nation.name
ORDER BY persons DESC, nation.name LIMIT 3

-- q5: how many persons of a city have an interest
SELECT count(*)
FROM Person AS person
JOIN HasInterest ON HasInterest.src = person.number
JOIN Interest AS liked ON liked.number = HasInterest.dst
JOIN LivesIn ON LivesIn.src = person.number
JOIN City AS home ON home.number = LivesIn.dst
JOIN CityIn ON CityIn.src = home.number
JOIN StateIn ON StateIn.src = CityIn.dst
JOIN Country AS nation ON nation.number = StateIn.dst
WHERE liked.name = $interest AND person.gender = $gender
  AND home.name = $city AND nation.name = $country

-- q6: the five cities where most persons have an interest
SELECT city.number, city.name, count(*) AS persons
FROM Person AS person
JOIN HasInterest ON HasInterest.src = person.number
JOIN Interest AS liked ON liked.number = HasInterest.dst
JOIN LivesIn ON LivesIn.src = person.number
JOIN City AS city ON city.number = LivesIn.dst
WHERE liked.name = $interest AND person.gender = $gender
GROUP BY city.number, city.name
ORDER BY persons DESC, city.number LIMIT 5

-- q7: the state of a country where most persons of an age have an interest
SELECT state.number, state.name, count(*) AS persons
FROM Person AS person
JOIN HasInterest ON HasInterest.src = person.number
JOIN Interest AS liked ON liked.number = HasInterest.dst
JOIN LivesIn ON LivesIn.src = person.number
JOIN CityIn ON CityIn.src = LivesIn.dst
JOIN State AS state ON state.number = CityIn.dst
JOIN StateIn ON StateIn.src = state.number
JOIN Country AS nation ON nation.number = StateIn.dst
WHERE liked.name = $interest AND person.age >= $youngest AND person.age <= $oldest
  AND nation.name = $country
GROUP BY state.number, state.name
ORDER BY persons DESC, state.number LIMIT 1

-- q8: how many ways lead from a person over a second to a third
SELECT count(*) FROM Follows AS first JOIN Follows AS second ON second.src = first.dst

-- q9: the same, through persons below one age to persons above another
SELECT count(*)
FROM Follows AS first
JOIN Follows AS second ON second.src = first.dst
JOIN Person AS b ON b.number = first.dst
JOIN Person AS c ON c.number = second.dst
WHERE b.age < $below AND c.age > $above
