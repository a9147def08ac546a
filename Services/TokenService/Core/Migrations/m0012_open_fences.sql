-- Every registration and logout asks for its installations' fences that are not published yet. There are hardly any, and this index holds no
-- others. It is the only index on open fences: beside a second one, the planner may take the one without the installation.
CREATE INDEX fences_open ON fences (app_id, installation) WHERE published_at IS NULL;
