SELECT auction, bidder, price, channel, channel_id
FROM (
  SELECT *,
         CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                             ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
  FROM bid
)
WHERE channel_id IS NOT NULL;
