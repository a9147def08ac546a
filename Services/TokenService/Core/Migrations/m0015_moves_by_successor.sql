-- Without the app in front, as its other index: where most moves are of one app, or nobody has analyzed the table, a batch's look-up by
-- successors took the app's part of this index for short, and walked through all of it.
ALTER TABLE token_moves DROP CONSTRAINT token_moves_pkey, ADD PRIMARY KEY (successor, predecessor, app_id);
