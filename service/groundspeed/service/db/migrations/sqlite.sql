CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE auditentry (
	id INTEGER NOT NULL, 
	actor VARCHAR NOT NULL, 
	action VARCHAR NOT NULL, 
	subject_type VARCHAR NOT NULL, 
	subject_id VARCHAR NOT NULL, 
	data JSON NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_auditentry PRIMARY KEY (id)
);
CREATE INDEX ix_auditentry_at ON auditentry (at);
CREATE INDEX ix_auditentry_subject_id ON auditentry (subject_id);
CREATE TABLE buildsnapshot (
	id INTEGER NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	facets JSON NOT NULL, 
	CONSTRAINT pk_buildsnapshot PRIMARY KEY (id), 
	CONSTRAINT uq_buildsnapshot_fingerprint UNIQUE (fingerprint)
);
CREATE TABLE environment (
	id INTEGER NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	label VARCHAR NOT NULL, 
	facets JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_environment PRIMARY KEY (id), 
	CONSTRAINT uq_environment_fingerprint UNIQUE (fingerprint)
);
CREATE TABLE hardware (
	id INTEGER NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	label VARCHAR NOT NULL, 
	facts JSON NOT NULL, 
	CONSTRAINT pk_hardware PRIMARY KEY (id), 
	CONSTRAINT uq_hardware_fingerprint UNIQUE (fingerprint)
);
CREATE TABLE outbox (
	id INTEGER NOT NULL, 
	topic VARCHAR NOT NULL, 
	payload JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	sent_at DATETIME, 
	CONSTRAINT pk_outbox PRIMARY KEY (id)
);
CREATE INDEX ix_outbox_sent_at ON outbox (sent_at);
CREATE TABLE project (
	id INTEGER NOT NULL, 
	slug VARCHAR(100) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	repo_url VARCHAR NOT NULL, 
	branch VARCHAR NOT NULL, 
	credential VARCHAR, 
	watch BOOLEAN NOT NULL, 
	poll_interval_s FLOAT NOT NULL, 
	tip_sha VARCHAR, 
	polled_at DATETIME, 
	config_error VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_project PRIMARY KEY (id), 
	CONSTRAINT uq_project_slug UNIQUE (slug)
);
CREATE TABLE benchmark (
	id INTEGER NOT NULL, 
	project_id INTEGER NOT NULL, 
	suite VARCHAR(200) NOT NULL, 
	plugin VARCHAR(200) NOT NULL, 
	version VARCHAR(200) NOT NULL, 
	target VARCHAR, 
	previous_id INTEGER, 
	CONSTRAINT pk_benchmark PRIMARY KEY (id), 
	CONSTRAINT fk_benchmark_previous_id_benchmark FOREIGN KEY(previous_id) REFERENCES benchmark (id), 
	CONSTRAINT fk_benchmark_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_benchmark_project_id_suite_plugin_version UNIQUE (project_id, suite, plugin, version)
);
CREATE TABLE node (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	state VARCHAR NOT NULL, 
	state_reason VARCHAR NOT NULL, 
	labels JSON NOT NULL, 
	protocol INTEGER NOT NULL, 
	worker_version VARCHAR NOT NULL, 
	slots INTEGER NOT NULL, 
	sandbox VARCHAR NOT NULL, 
	hardware_id INTEGER, 
	environment_id INTEGER, 
	info JSON NOT NULL, 
	registered_at DATETIME NOT NULL, 
	seen_at DATETIME, address VARCHAR DEFAULT '' NOT NULL, instance VARCHAR(64) DEFAULT '' NOT NULL, 
	CONSTRAINT pk_node PRIMARY KEY (id), 
	CONSTRAINT fk_node_environment_id_environment FOREIGN KEY(environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_node_hardware_id_hardware FOREIGN KEY(hardware_id) REFERENCES hardware (id), 
	CONSTRAINT uq_node_name UNIQUE (name)
);
CREATE INDEX ix_node_seen_at ON node (seen_at);
CREATE TABLE request (
	id INTEGER NOT NULL, 
	project_id INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	idempotency_key VARCHAR(200) NOT NULL, 
	state VARCHAR NOT NULL, 
	priority INTEGER NOT NULL, 
	tip_sha VARCHAR NOT NULL, 
	payload JSON NOT NULL, 
	config JSON NOT NULL, 
	budget_s FLOAT NOT NULL, 
	parent_id INTEGER, 
	error VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	finished_at DATETIME, 
	CONSTRAINT pk_request PRIMARY KEY (id), 
	CONSTRAINT fk_request_parent_id_request FOREIGN KEY(parent_id) REFERENCES request (id), 
	CONSTRAINT fk_request_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_request_project_id_idempotency_key UNIQUE (project_id, idempotency_key)
);
CREATE INDEX ix_request_created_at ON request (created_at);
CREATE INDEX ix_request_project_id ON request (project_id);
CREATE TABLE revision (
	id INTEGER NOT NULL, 
	project_id INTEGER NOT NULL, 
	sha VARCHAR(64) NOT NULL, 
	parents JSON NOT NULL, 
	position INTEGER, 
	author VARCHAR NOT NULL, 
	authored_at DATETIME NOT NULL, 
	committed_at DATETIME NOT NULL, 
	title VARCHAR NOT NULL, 
	tags JSON NOT NULL, 
	CONSTRAINT pk_revision PRIMARY KEY (id), 
	CONSTRAINT fk_revision_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_revision_project_id_sha UNIQUE (project_id, sha)
);
CREATE INDEX ix_revision_position ON revision (project_id, position);
CREATE INDEX ix_revision_sha ON revision (sha);
CREATE TABLE schedulefire (
	id INTEGER NOT NULL, 
	project_id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	fired_at DATETIME NOT NULL, 
	CONSTRAINT pk_schedulefire PRIMARY KEY (id), 
	CONSTRAINT fk_schedulefire_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_schedulefire_project_id_name UNIQUE (project_id, name)
);
CREATE TABLE catalogueentry (
	id INTEGER NOT NULL, 
	node_id INTEGER, 
	plugin VARCHAR(200) NOT NULL, 
	version VARCHAR NOT NULL, 
	spec JSON NOT NULL, 
	CONSTRAINT pk_catalogueentry PRIMARY KEY (id), 
	CONSTRAINT fk_catalogueentry_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT uq_catalogueentry_node_id_plugin UNIQUE (node_id, plugin)
);
CREATE INDEX ix_catalogueentry_plugin ON catalogueentry (plugin);
CREATE TABLE event (
	id INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	project_id INTEGER, 
	node_id INTEGER, 
	revision_id INTEGER, 
	environment_from_id INTEGER, 
	environment_to_id INTEGER, 
	title VARCHAR NOT NULL, 
	body VARCHAR NOT NULL, 
	at DATETIME NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_event PRIMARY KEY (id), 
	CONSTRAINT fk_event_environment_from_id_environment FOREIGN KEY(environment_from_id) REFERENCES environment (id), 
	CONSTRAINT fk_event_environment_to_id_environment FOREIGN KEY(environment_to_id) REFERENCES environment (id), 
	CONSTRAINT fk_event_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT fk_event_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_event_revision_id_revision FOREIGN KEY(revision_id) REFERENCES revision (id)
);
CREATE INDEX ix_event_at ON event (at);
CREATE INDEX ix_event_node_id ON event (node_id);
CREATE INDEX ix_event_project_id ON event (project_id);
CREATE TABLE job (
	id INTEGER NOT NULL, 
	request_id INTEGER NOT NULL, 
	project_id INTEGER NOT NULL, 
	"key" VARCHAR(200) NOT NULL, 
	suite VARCHAR(200) NOT NULL, 
	reason VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	priority INTEGER NOT NULL, 
	requirements JSON NOT NULL, 
	spec JSON NOT NULL, 
	trust VARCHAR NOT NULL, 
	attempts INTEGER NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	error VARCHAR NOT NULL, 
	not_before DATETIME, 
	hinted_at DATETIME, 
	created_at DATETIME NOT NULL, 
	finished_at DATETIME, needs VARCHAR(16) DEFAULT '' NOT NULL, 
	CONSTRAINT pk_job PRIMARY KEY (id), 
	CONSTRAINT fk_job_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_job_request_id_request FOREIGN KEY(request_id) REFERENCES request (id), 
	CONSTRAINT uq_job_request_id_key UNIQUE (request_id, "key")
);
CREATE INDEX ix_job_project_id ON job (project_id);
CREATE TABLE attempt (
	id VARCHAR(36) NOT NULL, 
	job_id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	delivery VARCHAR(100) NOT NULL, 
	state VARCHAR NOT NULL, 
	phase VARCHAR NOT NULL, 
	message VARCHAR NOT NULL, 
	done INTEGER NOT NULL, 
	total INTEGER NOT NULL, 
	error_kind VARCHAR NOT NULL, 
	error VARCHAR NOT NULL, 
	claimed_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	finished_at DATETIME, gang VARCHAR(36), rank INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_attempt PRIMARY KEY (id), 
	CONSTRAINT fk_attempt_job_id_job FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_attempt_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT uq_attempt_job_id_number UNIQUE (job_id, number)
);
CREATE INDEX ix_attempt_node_id ON attempt (node_id);
CREATE TABLE jobside (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	"index" INTEGER NOT NULL, 
	role VARCHAR NOT NULL, 
	revision_id INTEGER NOT NULL, 
	environment_id INTEGER, 
	CONSTRAINT pk_jobside PRIMARY KEY (id), 
	CONSTRAINT fk_jobside_environment_id_environment FOREIGN KEY(environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_jobside_job_id_job FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_jobside_revision_id_revision FOREIGN KEY(revision_id) REFERENCES revision (id), 
	CONSTRAINT uq_jobside_job_id_index UNIQUE (job_id, "index")
);
CREATE INDEX ix_jobside_revision_id ON jobside (revision_id);
CREATE TABLE seriesmark (
	id INTEGER NOT NULL, 
	series_id INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, revision_id INTEGER, 
	CONSTRAINT pk_seriesmark PRIMARY KEY (id), 
	CONSTRAINT fk_seriesmark_series_id_series FOREIGN KEY(series_id) REFERENCES series (id)
);
CREATE INDEX ix_seriesmark_series_id ON seriesmark (series_id);
CREATE TABLE verdict (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	series_id INTEGER NOT NULL, 
	base_revision_id INTEGER NOT NULL, 
	head_revision_id INTEGER NOT NULL, 
	base_environment_id INTEGER, 
	head_environment_id INTEGER, 
	answer VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	ratio FLOAT, 
	ratio_low FLOAT, 
	ratio_high FLOAT, 
	mde FLOAT, 
	pairs INTEGER NOT NULL, 
	detail JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_verdict PRIMARY KEY (id), 
	CONSTRAINT fk_verdict_base_environment_id_environment FOREIGN KEY(base_environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_verdict_base_revision_id_revision FOREIGN KEY(base_revision_id) REFERENCES revision (id), 
	CONSTRAINT fk_verdict_head_environment_id_environment FOREIGN KEY(head_environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_verdict_head_revision_id_revision FOREIGN KEY(head_revision_id) REFERENCES revision (id), 
	CONSTRAINT fk_verdict_job_id_job FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_verdict_series_id_series FOREIGN KEY(series_id) REFERENCES series (id), 
	CONSTRAINT uq_verdict_job_id_series_id UNIQUE (job_id, series_id)
);
CREATE INDEX ix_verdict_job_id ON verdict (job_id);
CREATE INDEX ix_verdict_series_id ON verdict (series_id);
CREATE TABLE logentry (
	id INTEGER NOT NULL, 
	attempt_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	stream VARCHAR NOT NULL, 
	text VARCHAR NOT NULL, 
	CONSTRAINT pk_logentry PRIMARY KEY (id), 
	CONSTRAINT fk_logentry_attempt_id_attempt FOREIGN KEY(attempt_id) REFERENCES attempt (id), 
	CONSTRAINT uq_logentry_attempt_id_seq UNIQUE (attempt_id, seq)
);
CREATE TABLE run (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	attempt_id VARCHAR NOT NULL, 
	side INTEGER NOT NULL, 
	benchmark_key VARCHAR(200) NOT NULL, 
	replicate INTEGER NOT NULL, 
	benchmark_id INTEGER NOT NULL, 
	revision_id INTEGER NOT NULL, 
	hardware_id INTEGER NOT NULL, 
	environment_id INTEGER NOT NULL, 
	build_id INTEGER, 
	node_id INTEGER NOT NULL, 
	device_uuid VARCHAR, 
	params JSON NOT NULL, 
	outcome VARCHAR NOT NULL, 
	evidence JSON NOT NULL, 
	conditions JSON NOT NULL, 
	trace BLOB, 
	facts JSON NOT NULL, 
	phases_s JSON NOT NULL, 
	started_at DATETIME NOT NULL, 
	duration_s FLOAT NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_run PRIMARY KEY (id), 
	CONSTRAINT fk_run_attempt_id_attempt FOREIGN KEY(attempt_id) REFERENCES attempt (id), 
	CONSTRAINT fk_run_benchmark_id_benchmark FOREIGN KEY(benchmark_id) REFERENCES benchmark (id), 
	CONSTRAINT fk_run_build_id_buildsnapshot FOREIGN KEY(build_id) REFERENCES buildsnapshot (id), 
	CONSTRAINT fk_run_environment_id_environment FOREIGN KEY(environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_run_hardware_id_hardware FOREIGN KEY(hardware_id) REFERENCES hardware (id), 
	CONSTRAINT fk_run_job_id_job FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_run_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT fk_run_revision_id_revision FOREIGN KEY(revision_id) REFERENCES revision (id), 
	CONSTRAINT uq_run_job_id_side_benchmark_key_replicate UNIQUE (job_id, side, benchmark_key, replicate)
);
CREATE INDEX ix_run_benchmark_id ON run (benchmark_id);
CREATE INDEX ix_run_created_at ON run (created_at);
CREATE INDEX ix_run_failed ON run (benchmark_id, hardware_id) WHERE outcome != 'ok';
CREATE INDEX ix_run_revision ON run (revision_id, benchmark_id);
CREATE TABLE artefact (
	id INTEGER NOT NULL, 
	attempt_id VARCHAR NOT NULL, 
	run_id INTEGER, 
	kind VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	media_type VARCHAR NOT NULL, 
	stored BOOLEAN NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_artefact PRIMARY KEY (id), 
	CONSTRAINT fk_artefact_attempt_id_attempt FOREIGN KEY(attempt_id) REFERENCES attempt (id), 
	CONSTRAINT fk_artefact_run_id_run FOREIGN KEY(run_id) REFERENCES run (id), 
	CONSTRAINT uq_artefact_attempt_id_sha256_name UNIQUE (attempt_id, sha256, name)
);
CREATE INDEX ix_artefact_attempt_id ON artefact (attempt_id);
CREATE INDEX ix_artefact_run_id ON artefact (run_id);
CREATE INDEX ix_artefact_sha256 ON artefact (sha256);
CREATE TABLE "changepoint" (
	id INTEGER NOT NULL, 
	series_id INTEGER NOT NULL, 
	regression_id INTEGER, 
	before_revision_id INTEGER NOT NULL, 
	after_revision_id INTEGER NOT NULL, 
	environment_from_id INTEGER, 
	environment_to_id INTEGER, 
	state VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	cause VARCHAR NOT NULL, 
	ratio FLOAT, 
	ratio_low FLOAT, 
	ratio_high FLOAT, 
	difference FLOAT NOT NULL, 
	strength FLOAT NOT NULL, 
	p_value FLOAT, 
	detail JSON NOT NULL, 
	detector_version VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	pinned BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_changepoint PRIMARY KEY (id), 
	CONSTRAINT fk_changepoint_environment_from_id_environment FOREIGN KEY(environment_from_id) REFERENCES environment (id), 
	CONSTRAINT fk_changepoint_regression_id_regression FOREIGN KEY(regression_id) REFERENCES regression (id), 
	CONSTRAINT fk_changepoint_series_id_series FOREIGN KEY(series_id) REFERENCES series (id), 
	CONSTRAINT fk_changepoint_before_revision_id_revision FOREIGN KEY(before_revision_id) REFERENCES revision (id), 
	CONSTRAINT fk_changepoint_environment_to_id_environment FOREIGN KEY(environment_to_id) REFERENCES environment (id), 
	CONSTRAINT fk_changepoint_after_revision_id_revision FOREIGN KEY(after_revision_id) REFERENCES revision (id)
);
CREATE INDEX ix_changepoint_created_at ON changepoint (created_at);
CREATE INDEX ix_changepoint_regression_id ON changepoint (regression_id);
CREATE INDEX ix_changepoint_series ON changepoint (series_id, state);
CREATE TABLE "regression" (
	id INTEGER NOT NULL, 
	project_id INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	title VARCHAR NOT NULL, 
	before_revision_id INTEGER, 
	after_revision_id INTEGER, 
	cause VARCHAR NOT NULL, 
	assignee VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	link VARCHAR NOT NULL, 
	ignore_until VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	notified_at DATETIME, 
	merged_into_id INTEGER, ignored_at DATETIME, 
	CONSTRAINT pk_regression PRIMARY KEY (id), 
	CONSTRAINT fk_regression_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_regression_before_revision_id_revision FOREIGN KEY(before_revision_id) REFERENCES revision (id), 
	CONSTRAINT fk_regression_after_revision_id_revision FOREIGN KEY(after_revision_id) REFERENCES revision (id), 
	CONSTRAINT fk_regression_merged_into_id_regression FOREIGN KEY(merged_into_id) REFERENCES regression (id)
);
CREATE INDEX ix_regression_created_at ON regression (created_at);
CREATE INDEX ix_regression_state ON regression (state);
CREATE INDEX ix_regression_project_id ON regression (project_id);
CREATE TABLE delivery (
	id INTEGER NOT NULL, 
	guid VARCHAR(100) NOT NULL, 
	event VARCHAR(100) NOT NULL, 
	body BLOB, 
	state VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	tries INTEGER NOT NULL, 
	received_at DATETIME NOT NULL, 
	processed_at DATETIME, digest VARCHAR(64) DEFAULT '' NOT NULL, 
	CONSTRAINT pk_delivery PRIMARY KEY (id), 
	CONSTRAINT uq_delivery_guid UNIQUE (guid)
);
CREATE INDEX ix_delivery_state ON delivery (state, id);
CREATE TABLE forgerepository (
	id INTEGER NOT NULL, 
	project_id INTEGER, 
	forge_id BIGINT NOT NULL, 
	full_name VARCHAR(300) NOT NULL, 
	installation_id BIGINT, 
	private BOOLEAN NOT NULL, 
	default_branch VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	reconciled_at DATETIME, quiet_until DATETIME, comments_at VARCHAR DEFAULT '' NOT NULL, 
	CONSTRAINT pk_forgerepository PRIMARY KEY (id), 
	CONSTRAINT fk_forgerepository_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_forgerepository_forge_id UNIQUE (forge_id)
);
CREATE INDEX ix_forgerepository_full_name ON forgerepository (full_name);
CREATE INDEX ix_forgerepository_project_id ON forgerepository (project_id);
CREATE TABLE forgeaction (
	id INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	repository_id INTEGER NOT NULL, 
	pull_id INTEGER, 
	idempotency_key VARCHAR(200) NOT NULL, 
	payload JSON NOT NULL, 
	state VARCHAR NOT NULL, 
	tries INTEGER NOT NULL, 
	error VARCHAR NOT NULL, 
	not_before DATETIME NOT NULL, 
	created_at DATETIME NOT NULL, 
	sent_at DATETIME, wanted INTEGER DEFAULT '1' NOT NULL, 
	CONSTRAINT pk_forgeaction PRIMARY KEY (id), 
	CONSTRAINT fk_forgeaction_pull_id_pullrequest FOREIGN KEY(pull_id) REFERENCES pullrequest (id), 
	CONSTRAINT fk_forgeaction_repository_id_forgerepository FOREIGN KEY(repository_id) REFERENCES forgerepository (id), 
	CONSTRAINT uq_forgeaction_idempotency_key UNIQUE (idempotency_key)
);
CREATE INDEX ix_forgeaction_pull_id ON forgeaction (pull_id);
CREATE INDEX ix_forgeaction_state ON forgeaction (state, not_before);
CREATE TABLE "result" (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	series_id INTEGER NOT NULL, 
	revision_id INTEGER NOT NULL, 
	environment_id INTEGER NOT NULL, 
	value FLOAT NOT NULL, 
	spread FLOAT NOT NULL, 
	count INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	samples BLOB, 
	CONSTRAINT pk_result PRIMARY KEY (id), 
	CONSTRAINT fk_result_run_id_run FOREIGN KEY(run_id) REFERENCES run (id), 
	CONSTRAINT fk_result_series_id_series FOREIGN KEY(series_id) REFERENCES series (id), 
	CONSTRAINT uq_result_run_id_series_id UNIQUE (run_id, series_id)
);
CREATE INDEX ix_result_series ON result (series_id, revision_id, environment_id, value, spread, state, run_id);
CREATE TABLE bookmark (
	name VARCHAR(100) NOT NULL, 
	place BIGINT NOT NULL, 
	CONSTRAINT pk_bookmark PRIMARY KEY (name)
);
CREATE INDEX ix_job_request ON job (request_id, state);
CREATE INDEX ix_delivery_digest ON delivery (digest);
CREATE TABLE "pullrequest" (
	id INTEGER NOT NULL, 
	repository_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	title VARCHAR NOT NULL, 
	author VARCHAR NOT NULL, 
	association VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	merged BOOLEAN NOT NULL, 
	draft BOOLEAN NOT NULL, 
	from_fork BOOLEAN NOT NULL, 
	head_sha VARCHAR(64) NOT NULL, 
	base_ref VARCHAR NOT NULL, 
	base_sha VARCHAR(64) NOT NULL, 
	labels JSON NOT NULL, 
	updated_at VARCHAR NOT NULL, 
	approved_sha VARCHAR NOT NULL, 
	approved_by VARCHAR NOT NULL, 
	accepted_sha VARCHAR NOT NULL, 
	accepted_by VARCHAR NOT NULL, 
	accepted_reason VARCHAR NOT NULL, 
	request_id INTEGER, 
	measured_sha VARCHAR(64) NOT NULL, 
	check_id BIGINT, 
	check_sha VARCHAR(64) NOT NULL, 
	comment_id BIGINT, 
	told JSON NOT NULL, 
	kind VARCHAR DEFAULT 'pull' NOT NULL, 
	head_ref VARCHAR DEFAULT '' NOT NULL, 
	due_at DATETIME, 
	refresh BOOLEAN DEFAULT 0 NOT NULL, 
	round INTEGER DEFAULT '0' NOT NULL, 
	wish JSON DEFAULT '{}' NOT NULL, 
	outcome VARCHAR DEFAULT '' NOT NULL, 
	outcome_sha VARCHAR(64) DEFAULT '' NOT NULL, 
	compared_sha VARCHAR(64) DEFAULT '' NOT NULL, 
	note VARCHAR DEFAULT '' NOT NULL, 
	CONSTRAINT pk_pullrequest PRIMARY KEY (id), 
	CONSTRAINT fk_pullrequest_request_id_request FOREIGN KEY(request_id) REFERENCES request (id), 
	CONSTRAINT uq_pullrequest_repository_id_number UNIQUE (repository_id, number), 
	CONSTRAINT fk_pullrequest_repository_id_forgerepository FOREIGN KEY(repository_id) REFERENCES forgerepository (id)
);
CREATE INDEX ix_pullrequest_head_sha ON pullrequest (head_sha);
CREATE INDEX ix_pullrequest_request_id ON pullrequest (request_id);
CREATE INDEX ix_pullrequest_due_at ON pullrequest (due_at);
CREATE TABLE forgeissue (
	id INTEGER NOT NULL, 
	regression_id INTEGER NOT NULL, 
	repository_id INTEGER NOT NULL, 
	number INTEGER, 
	digest VARCHAR(64) NOT NULL, 
	closed BOOLEAN NOT NULL, 
	updated_at DATETIME NOT NULL, 
	CONSTRAINT pk_forgeissue PRIMARY KEY (id), 
	CONSTRAINT fk_forgeissue_regression_id_regression FOREIGN KEY(regression_id) REFERENCES regression (id), 
	CONSTRAINT fk_forgeissue_repository_id_forgerepository FOREIGN KEY(repository_id) REFERENCES forgerepository (id), 
	CONSTRAINT uq_forgeissue_regression_id UNIQUE (regression_id)
);
CREATE INDEX ix_forgeissue_repository_id ON forgeissue (repository_id);
CREATE TABLE campaign (
	id INTEGER NOT NULL, 
	name VARCHAR(100) NOT NULL, 
	project_id INTEGER NOT NULL, 
	revision_id INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	phase INTEGER NOT NULL, 
	reason VARCHAR NOT NULL, 
	wanted JSON NOT NULL, 
	"plan" JSON NOT NULL, 
	report JSON NOT NULL, 
	actor VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	finished_at DATETIME, due BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_campaign PRIMARY KEY (id), 
	CONSTRAINT fk_campaign_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_campaign_revision_id_revision FOREIGN KEY(revision_id) REFERENCES revision (id), 
	CONSTRAINT uq_campaign_name UNIQUE (name)
);
CREATE INDEX ix_campaign_project_id ON campaign (project_id);
CREATE INDEX ix_campaign_state ON campaign (state);
CREATE TABLE campaignnode (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	wave INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	state_at DATETIME NOT NULL, 
	note VARCHAR NOT NULL, 
	before_environment_id INTEGER, 
	after_environment_id INTEGER, 
	lost JSON NOT NULL, 
	other JSON NOT NULL, 
	jobs JSON NOT NULL, 
	reused BOOLEAN NOT NULL, 
	hook JSON NOT NULL, 
	CONSTRAINT pk_campaignnode PRIMARY KEY (id), 
	CONSTRAINT fk_campaignnode_after_environment_id_environment FOREIGN KEY(after_environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_campaignnode_before_environment_id_environment FOREIGN KEY(before_environment_id) REFERENCES environment (id), 
	CONSTRAINT fk_campaignnode_campaign_id_campaign FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_campaignnode_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT uq_campaignnode_campaign_id_node_id UNIQUE (campaign_id, node_id)
);
CREATE INDEX ix_campaignnode_node_id ON campaignnode (node_id);
CREATE TABLE account (
	id INTEGER NOT NULL, 
	provider VARCHAR(40) NOT NULL, 
	subject VARCHAR(255) NOT NULL, 
	handle VARCHAR(120) NOT NULL, 
	login VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	email VARCHAR(320) NOT NULL, 
	role VARCHAR NOT NULL, 
	role_from VARCHAR NOT NULL, 
	disabled BOOLEAN NOT NULL, 
	created_at DATETIME NOT NULL, 
	signed_in_at DATETIME NOT NULL, 
	CONSTRAINT pk_account PRIMARY KEY (id), 
	CONSTRAINT uq_account_handle UNIQUE (handle), 
	CONSTRAINT uq_account_provider_subject UNIQUE (provider, subject)
);
CREATE INDEX ix_account_email ON account (email);
CREATE TABLE signinstart (
	sha256 VARCHAR(64) NOT NULL, 
	provider VARCHAR(40) NOT NULL, 
	browser VARCHAR(64) NOT NULL, 
	nonce VARCHAR NOT NULL, 
	verifier VARCHAR NOT NULL, 
	next VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_signinstart PRIMARY KEY (sha256)
);
CREATE INDEX ix_signinstart_created_at ON signinstart (created_at);
CREATE TABLE signintry (
	id INTEGER NOT NULL, 
	source VARCHAR(64) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_signintry PRIMARY KEY (id)
);
CREATE INDEX ix_signintry_source ON signintry (source, at);
CREATE TABLE channel (
	id INTEGER NOT NULL, 
	project_id INTEGER, 
	name VARCHAR(100) NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	target VARCHAR NOT NULL, 
	secret VARCHAR NOT NULL, 
	events JSON NOT NULL, 
	digest VARCHAR NOT NULL, 
	template VARCHAR NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_channel PRIMARY KEY (id), 
	CONSTRAINT fk_channel_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_channel_name UNIQUE (name)
);
CREATE INDEX ix_channel_project_id ON channel (project_id);
CREATE TABLE signedin (
	sha256 VARCHAR(64) NOT NULL, 
	account_id INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_signedin PRIMARY KEY (sha256), 
	CONSTRAINT fk_signedin_account_id_account FOREIGN KEY(account_id) REFERENCES account (id)
);
CREATE INDEX ix_signedin_account_id ON signedin (account_id);
CREATE INDEX ix_signedin_expires_at ON signedin (expires_at);
CREATE TABLE notification (
	id INTEGER NOT NULL, 
	channel_id INTEGER NOT NULL, 
	regression_id INTEGER, 
	"key" VARCHAR(200) NOT NULL, 
	event VARCHAR(40) NOT NULL, 
	facts JSON NOT NULL, 
	state VARCHAR NOT NULL, 
	batch VARCHAR(60) NOT NULL, 
	tries INTEGER NOT NULL, 
	error VARCHAR NOT NULL, 
	not_before DATETIME NOT NULL, 
	created_at DATETIME NOT NULL, 
	sent_at DATETIME, 
	CONSTRAINT pk_notification PRIMARY KEY (id), 
	CONSTRAINT fk_notification_channel_id_channel FOREIGN KEY(channel_id) REFERENCES channel (id), 
	CONSTRAINT fk_notification_regression_id_regression FOREIGN KEY(regression_id) REFERENCES regression (id), 
	CONSTRAINT uq_notification_channel_id_key UNIQUE (channel_id, "key")
);
CREATE INDEX ix_notification_batch ON notification (batch);
CREATE INDEX ix_notification_channel_id ON notification (channel_id);
CREATE INDEX ix_notification_due ON notification (state, not_before);
CREATE INDEX ix_notification_regression_id ON notification (regression_id);
CREATE INDEX ix_regression_ignored_at ON regression (ignored_at);
CREATE TABLE "token" (
	id INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	role VARCHAR NOT NULL, 
	scopes JSON NOT NULL, 
	node_id INTEGER, 
	created_at DATETIME NOT NULL, 
	expires_at DATETIME, 
	revoked_at DATETIME, 
	account_id INTEGER, 
	CONSTRAINT pk_token PRIMARY KEY (id), 
	CONSTRAINT uq_token_sha256 UNIQUE (sha256), 
	CONSTRAINT fk_token_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT fk_token_account_id_account FOREIGN KEY(account_id) REFERENCES account (id)
);
CREATE INDEX ix_token_account_id ON token (account_id);
CREATE INDEX ix_attempt_gang ON attempt (gang);
CREATE INDEX ix_attempt_running ON attempt (node_id) WHERE state = 'running';
CREATE INDEX ix_attempt_finished_at ON attempt (finished_at);
CREATE INDEX ix_job_queue ON job (state, priority, project_id, needs, id);
CREATE TABLE "device" (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	"index" INTEGER NOT NULL, 
	uuid VARCHAR(100) NOT NULL, 
	model VARCHAR NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	facts JSON NOT NULL, 
	CONSTRAINT pk_device PRIMARY KEY (id), 
	CONSTRAINT fk_device_node_id_node FOREIGN KEY(node_id) REFERENCES node (id), 
	CONSTRAINT uq_device_node_id_uuid UNIQUE (node_id, uuid)
);
CREATE INDEX ix_device_uuid ON device (uuid);
CREATE TABLE kerneltable (
	run_id INTEGER NOT NULL, 
	kernels BLOB, 
	why VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_kerneltable PRIMARY KEY (run_id), 
	CONSTRAINT fk_kerneltable_run_id_run FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE TABLE "series" (
	id INTEGER NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	project_id INTEGER NOT NULL, 
	benchmark_id INTEGER NOT NULL, 
	hardware_id INTEGER NOT NULL, 
	metric VARCHAR(200) NOT NULL, 
	unit VARCHAR(40) NOT NULL, 
	direction INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	clock VARCHAR NOT NULL, 
	gate BOOLEAN NOT NULL, 
	params JSON NOT NULL, 
	threshold FLOAT, 
	series_class VARCHAR NOT NULL, 
	noise JSON NOT NULL, 
	state BLOB, 
	detector_version VARCHAR NOT NULL, 
	last_result_at DATETIME, 
	created_at DATETIME NOT NULL, 
	continued_by_id INTEGER, 
	CONSTRAINT pk_series PRIMARY KEY (id), 
	CONSTRAINT fk_series_benchmark_id_benchmark FOREIGN KEY(benchmark_id) REFERENCES benchmark (id), 
	CONSTRAINT uq_series_fingerprint UNIQUE (fingerprint), 
	CONSTRAINT fk_series_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_series_hardware_id_hardware FOREIGN KEY(hardware_id) REFERENCES hardware (id), 
	CONSTRAINT fk_series_continued_by_id_series FOREIGN KEY(continued_by_id) REFERENCES series (id)
);
CREATE INDEX ix_series_benchmark_id ON series (benchmark_id);
CREATE INDEX ix_series_project_id ON series (project_id);
INSERT INTO alembic_version (version_num) VALUES ('0019');
