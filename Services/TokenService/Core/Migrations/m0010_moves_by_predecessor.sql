-- Without the app in front: while the table was small, a look-up by successor took this index as well as its own, walked through all
-- moves of the app, and went on doing so for as long as the plan was kept.
DROP INDEX token_moves_by_predecessor;
CREATE INDEX token_moves_by_predecessor ON token_moves (predecessor);
