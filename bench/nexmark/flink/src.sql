-- The events alone.
SELECT event_type, person, auction, bid FROM events;
