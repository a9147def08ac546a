-- Every registration asks for its installation's fences that are not published yet. There are hardly any, and this index holds no others:
-- the question costs next to nothing, where that of all fences ever made was walked for each installation.
CREATE INDEX fences_open ON fences (app_id, installation) WHERE published_at IS NULL;
