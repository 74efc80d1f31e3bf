SELECT category, AVG(highest)
FROM (
  SELECT a.id, a.category, MAX(b.price) AS highest
  FROM auction AS a JOIN bid AS b ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
