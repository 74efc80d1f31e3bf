-- The events, and those of each kind.
CREATE TABLE events (
  event_type INT,
  person ROW<id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING,
             date_time TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
              date_time TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3),
          extra STRING>,
  date_time TIMESTAMP(3),
  WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events' = '${events}', 'rate' = '${rate}', 'seed' = '${seed}');

CREATE VIEW person AS
SELECT person.id, person.name, person.email_address, person.credit_card, person.city, person.state, date_time,
       person.extra
FROM events WHERE event_type = 0;

CREATE VIEW auction AS
SELECT auction.id, auction.item_name, auction.description, auction.initial_bid, auction.reserve, date_time,
       auction.expires, auction.seller, auction.category, auction.extra
FROM events WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, date_time, bid.extra
FROM events WHERE event_type = 2;
