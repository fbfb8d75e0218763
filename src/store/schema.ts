// The tables as Kysely sees them; `migrations.ts` creates them.

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
  /** In UTC, as `2026-01-31`. */
  readonly day: string;
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly errors: number;
}

interface ConversationTable {
  readonly id: string;
  readonly key_id: string;
  readonly used_ms: number;
  readonly bytes: number;
}

interface ResponseTable {
  readonly id: string;
  readonly conversation_id: string;
  readonly previous_id: string | null;
  readonly created_ms: number;
  /** With its items. */
  readonly bytes: number;
  /** JSON, without the items. */
  readonly body: string;
}

export interface ResponseItemTable {
  readonly response_id: string;
  /** Input first, then output. */
  readonly position: number;
  readonly id: string;
  /** 1 for output, 0 for input. */
  readonly produced: number;
  readonly body: string;
}

export interface FileTable {
  readonly id: string;
  readonly key_id: string;
  readonly purpose: string;
  readonly name: string;
  readonly bytes: number;
  /** 0 while it is written, and once it is deleted. */
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
  readonly ending: string | null;
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  /** Lifetime of its output files. */
  readonly output_seconds: number | null;
  readonly metadata: string | null;
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
  /** Reads its lines or writes its files. */
  readonly owner: string | null;
  readonly until_ms: number;
}

interface BatchLineTable {
  readonly batch_id: string;
  readonly line: number;
  readonly custom_id: string;
  /** JSON; null once there is an answer. */
  readonly body: string | null;
  /** How often a runner began it and did not give it back. */
  readonly attempts: number;
  readonly owner: string | null;
  readonly until_ms: number;
  readonly answered_ms: number | null;
  readonly succeeded: number | null;
  readonly answer: string | null;
}

interface UsageFlushTable {
  readonly id: string;
  readonly at_ms: number;
}

/** A request whose usage counts once. */
interface ChargedRequestTable {
  readonly request_id: string;
  readonly at_ms: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
}

/** A stream that has begun, so that its client can resume it. */
export interface KeptRequestTable {
  /** A hash of its key and its id. */
  readonly name: string;
  readonly key_id: string;
  /** The server that answers it, or did so last. */
  readonly owner: string;
  /** 0 while it is answered, 1 where its answer was cut short, 2 where its client was sent all of it. */
  readonly ended: number;
  readonly at_ms: number;
  readonly bytes: number;
  /** What its key was charged for; null until that is known. */
  readonly prompt_tokens: number | null;
  readonly cached_tokens: number | null;
  readonly completion_tokens: number | null;
  /** Sealed, as the next. */
  readonly body: Uint8Array;
  /** Of an answer that was cut short. */
  readonly tokens: Uint8Array | null;
}

/** Tokens of the answers that a server gives, as they come. */
interface KeptTokensTable {
  readonly owner: string;
  readonly position: number;
  readonly at_ms: number;
  readonly body: Uint8Array;
}

/** A response that no client waits for, until it has ended. */
interface BackgroundResponseTable {
  readonly id: string;
  readonly key_id: string;
  readonly created_ms: number;
  /** What was asked, as JSON. */
  readonly body: string;
  /** 1 where its events may be streamed. */
  readonly streamed: number;
  /** The response while nobody knows more of it, as JSON. */
  readonly shown: string;
  /** 1 once it was called off. */
  readonly cancelled: number;
  /** Who answers it, and until when nobody else may. */
  readonly owner: string | null;
  readonly until_ms: number;
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
  readonly kept_request: KeptRequestTable;
  readonly kept_tokens: KeptTokensTable;
  readonly background_response: BackgroundResponseTable;
}
