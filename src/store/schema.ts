// The tables as Kysely sees them; `migrations.ts` makes them.

export interface ApiKeyTable {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  /** SHA-256 of the key, in hexadecimal. */
  readonly hash: string;
  readonly tier: string;
  readonly admin: number;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly max_concurrent: number | null;
  readonly daily_tokens: number | null;
  readonly kv_share: number | null;
  readonly created_ms: number;
  readonly revoked_ms: number | null;
}

export interface KeyUsageTable {
  readonly key_id: string;
  /** A day in UTC, `2026-01-31`. */
  readonly day: string;
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly errors: number;
}

/** Responses that build on each other. */
interface ConversationTable {
  readonly id: string;
  readonly key_id: string;
  /** When a response of it was last made. */
  readonly used_ms: number;
  /** Of all its responses. */
  readonly bytes: number;
}

interface ResponseTable {
  readonly id: string;
  readonly conversation_id: string;
  /** The response it goes on from. */
  readonly previous_id: string | null;
  readonly created_ms: number;
  /** Its items included. */
  readonly bytes: number;
  /** JSON, without the items. */
  readonly body: string;
}

export interface ResponseItemTable {
  readonly response_id: string;
  /** What was given comes first, then what was produced. */
  readonly position: number;
  readonly id: string;
  /** 1 where the model has made it, 0 where it was given. */
  readonly produced: number;
  readonly body: string;
}

export interface FileTable {
  readonly id: string;
  readonly key_id: string;
  readonly purpose: string;
  readonly name: string;
  /** Of all its chunks so far. */
  readonly bytes: number;
  /** 0 while it is being written, and once it was deleted. */
  readonly complete: number;
  readonly created_ms: number;
  readonly expires_ms: number | null;
}

interface FileChunkTable {
  readonly file_id: string;
  readonly position: number;
  readonly body: Uint8Array;
}

export interface BatchTable {
  readonly id: string;
  readonly key_id: string;
  readonly state: string;
  /** What it becomes once its files are written. */
  readonly ending: string | null;
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  /** How long its files stay. */
  readonly output_seconds: number | null;
  /** JSON. */
  readonly metadata: string | null;
  /** JSON. */
  readonly errors: string | null;
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly created_ms: number;
  readonly expires_ms: number;
  readonly in_progress_ms: number | null;
  readonly finalizing_ms: number | null;
  readonly cancelling_ms: number | null;
  readonly ended_ms: number | null;
  /** Who reads its lines in or writes its files. */
  readonly owner: string | null;
  readonly until_ms: number;
}

interface BatchLineTable {
  readonly batch_id: string;
  readonly line: number;
  readonly custom_id: string;
  /** JSON; gone once there is an answer. */
  readonly body: string | null;
  /** How often somebody began with it and did not give it back. */
  readonly attempts: number;
  /** Who runs it. */
  readonly owner: string | null;
  readonly until_ms: number;
  readonly answered_ms: number | null;
  readonly succeeded: number | null;
  /** JSON. */
  readonly answer: string | null;
}

/** A batch of usage that was written. */
interface UsageFlushTable {
  readonly id: string;
  readonly at_ms: number;
}

/** A request whose usage was counted, where it must not be counted again. */
interface ChargedRequestTable {
  readonly request_id: string;
  readonly at_ms: number;
}

export interface Schema {
  readonly api_key: ApiKeyTable;
  readonly key_usage: KeyUsageTable;
  readonly conversation: ConversationTable;
  readonly response: ResponseTable;
  readonly response_item: ResponseItemTable;
  readonly file: FileTable;
  readonly file_chunk: FileChunkTable;
  readonly batch: BatchTable;
  readonly batch_line: BatchLineTable;
  readonly usage_flush: UsageFlushTable;
  readonly charged_request: ChargedRequestTable;
}
