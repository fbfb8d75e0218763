// Every setting of the server in one table: its name, kind, default and meaning. Flags, environment, config file,
// `chairlift config` and docs/configuration.md all follow from it.

export type OptionKind =
  | { readonly type: 'text' }
  /**
   * Addresses: IP addresses, networks such as 10.0.0.0/8, or `loopback`. Origins: as browsers write them, or `*`.
   * Servers: an item may have several, separated by commas.
   */
  | { readonly type: 'list'; readonly of?: 'addresses' | 'origins' | 'servers' }
  | { readonly type: 'switch' }
  | { readonly type: 'integer'; readonly least: number; readonly most?: number }
  | { readonly type: 'bytes' }
  | { readonly type: 'seconds' }
  /** Above 0 and up to 1, or from 0 on. */
  | { readonly type: 'part'; readonly orNone?: true }
  | { readonly type: 'choice'; readonly values: readonly string[] }
  /** A list of objects; as JSON where it is a flag or a variable. See config-upstreams.ts. */
  | { readonly type: 'upstreams' };

export interface ConfigOption {
  readonly kind: OptionKind;
  /** Absent: unset. */
  readonly default?: string | number | boolean | readonly unknown[];
  readonly meaning: string;
  readonly secret?: true;
  /** Variables that other programs have for it; they count where ours is not set. */
  readonly variables?: readonly string[];
  /** A letter for the command line. */
  readonly short?: string;
  /** What other programs call it; the command line takes these, too. */
  readonly aliases?: readonly string[];
}

const text = { type: 'text' } as const;
const list = { type: 'list' } as const;
const addresses = { type: 'list', of: 'addresses' } as const;
const origins = { type: 'list', of: 'origins' } as const;
const servers = { type: 'list', of: 'servers' } as const;
const onOff = { type: 'switch' } as const;
const bytes = { type: 'bytes' } as const;
const seconds = { type: 'seconds' } as const;
const part = { type: 'part' } as const;
const port = { type: 'integer', least: 0, most: 65535 } as const;
const count = { type: 'integer', least: 1 } as const;

export const configOptions = {
  host: { kind: text, default: '127.0.0.1', meaning: 'address to listen on' },
  port: { kind: port, default: 8000, meaning: 'port to listen on; 0 takes a free one', short: 'p' },
  tlsCert: {
    kind: text,
    meaning: 'certificate in PEM, with those it rests on: serves HTTPS; read again on SIGHUP',
  },
  tlsKey: { kind: text, meaning: 'private key of the certificate, in PEM' },
  trustProxy: {
    kind: addresses,
    default: [],
    meaning:
      'proxies whose `X-Forwarded-For` counts: addresses, networks such as `10.0.0.0/8`, or `loopback`',
  },
  corsOrigins: {
    kind: origins,
    default: [],
    meaning:
      'sites whose pages may ask from a browser, such as `https://chat.example`, `localhost` for those of this machine at any port, or `*` for all',
  },
  adminPort: {
    kind: port,
    meaning: 'a port of their own for `/metrics` and `/admin`, which are then absent from the other',
  },
  adminHost: { kind: text, meaning: 'address of that port; `host` where unset' },
  protectMetrics: { kind: onOff, default: false, meaning: '`/metrics` needs an admin key' },
  llamaMetrics: {
    kind: onOff,
    default: false,
    meaning: '`/metrics` has the names of llama-server, `llamacpp:…`, beside its own',
  },

  model: {
    kind: list,
    default: [],
    meaning:
      'models to serve: paths, [names](cli.md#names-of-models) such as `hf:owner/repo:Q4_K_M` or `llama3.2:1b`, or `name=` and either; `chairlift serve` pulls those that are not here; the first is the default one; the embedded one where there is no other',
    short: 'm',
    aliases: ['hf-repo'],
  },
  shortNames: {
    kind: list,
    default: [],
    meaning:
      'short names of models on the hub beside [those that are known](cli.md#names-of-models): `name=owner/repo:Q4_K_M`',
  },
  chatTemplate: {
    kind: list,
    default: [],
    meaning:
      'chat template for models without one: a file, or `chatml`, `gemma`, `llama2`, `llama3`, `mistral`, `phi3`, `vicuna`, `zephyr`; `name=template` replaces that of one model',
  },
  toolFormat: {
    kind: list,
    default: [],
    meaning:
      'how models write calls of functions, where their template does not tell: a [name of a format](structured-output.md#tools) such as `hermes`, or `name=format` for one model',
  },
  samplingDefaults: {
    kind: list,
    default: [],
    meaning:
      'how answers are sampled where a request says nothing: `name=value`, such as `temperature=0.7`, of `temperature`, `top_k` and the other numbers by which a request [is sampled](api.md#sampling)',
  },
  generationConfig: {
    kind: { type: 'choice', values: ['auto', 'none'] },
    default: 'auto',
    meaning:
      'what a model’s files say of sampling (`generation_config.json`, `general.sampling.*` of a GGUF) counts where neither request nor `samplingDefaults` says anything; `none` ignores it',
  },
  thinking: {
    kind: { type: 'choice', values: ['auto', 'on', 'off'] },
    default: 'auto',
    meaning:
      'what chat templates are told as `enable_thinking` where a request says nothing; `auto` tells them nothing, and models do as their template has it',
  },
  modelsFolder: {
    kind: text,
    meaning: 'folder of models to serve on demand; `~/.chairlift/models` where unset',
    aliases: ['download-dir'],
  },
  adapter: {
    kind: list,
    default: [],
    meaning:
      'LoRA adapters, asked for as models: `model:name=path` of a folder that PEFT or mlx-lm wrote, or of a GGUF file',
  },
  alias: {
    kind: list,
    default: [],
    meaning: 'further names: `alias=name`; `*=name` serves every name that no model has',
  },
  upstreams: {
    kind: { type: 'upstreams' },
    default: [],
    meaning: 'servers elsewhere whose models are asked for here by name: [a list of objects](#upstreams)',
  },
  vision: {
    kind: onOff,
    default: true,
    meaning:
      'models that have a vision tower [read images](vision.md); `--no-vision` leaves towers out, and their memory free',
  },
  mmproj: {
    kind: list,
    default: [],
    meaning:
      'projector files of GGUF models, where they do not lie beside them: a path for the default model, or `name=path`',
  },
  preload: {
    kind: list,
    default: [],
    meaning: 'models to load at the start; the default model is always loaded',
  },
  pin: { kind: list, default: [], meaning: 'models that are never unloaded' },
  memory: {
    kind: bytes,
    meaning: 'memory for weights and KV of all models; 70 % of the machine, or of its container, where unset',
  },
  keepAlive: { kind: seconds, default: 600, meaning: 'an idle model is unloaded after so long; 0 keeps it' },

  backend: {
    kind: { type: 'choice', values: ['cpu', 'cuda', 'reference', 'webgpu'] },
    meaning:
      'what computes; where unset, a GPU if there is one, through CUDA or else WebGPU, else the fastest for the processor',
  },
  gpu: {
    kind: text,
    meaning: 'which of several GPUs, by its name or a part of it; with CUDA also by its number',
  },
  gpuMemory: {
    kind: bytes,
    meaning:
      'memory of the GPU for weights and KV caches of all models; where unset, 90 % of what it gives, or what it may have of the machine’s where it shares that; `memory` counts, too, where it is set',
  },
  threads: {
    kind: count,
    meaning:
      'compute threads of each engine; where unset, engines at work share the cores of the machine or its container',
    short: 't',
  },
  kvType: {
    kind: { type: 'choice', values: ['f16', 'q8', 'q4'] },
    default: 'f16',
    meaning:
      'how K and V are kept; `q8` halves their memory, `q4` takes little more than a quarter, on the processor alone: [KV types](performance.md#kv-types)',
  },
  speculation: {
    kind: { type: 'choice', values: ['auto', 'off'] },
    default: 'auto',
    meaning:
      'speculative decoding: draft tokens are verified together with the next one, where that is faster; answers are the same without',
  },
  draft: {
    kind: list,
    default: [],
    meaning:
      'smaller models of the same vocabulary that draft for larger ones, or [EAGLE-3 heads](models.md#eagle-3-heads) made for them, in place of their MTP heads: a path for the default model, or `name=path`',
  },
  kvBlocks: { kind: count, meaning: 'KV blocks of 32 tokens per model, in place of `kvMemory`' },
  kvMemory: {
    kind: bytes,
    meaning:
      'KV memory per model; where neither is set, it grows and shrinks with the need, up to 32 contexts',
  },
  cacheHostSize: {
    kind: bytes,
    meaning:
      'memory of the machine for KV blocks that a loaded model has no room for any more, of each model, beside `memory`; what is wanted again comes up from there: [tiers](batching.md#tiers). None where unset',
  },
  cacheDisk: {
    kind: text,
    meaning:
      'a folder in which KV blocks are kept, so that prompts need not be computed again after a restart: [tiers](batching.md#tiers); workers of a fleet [may share one](fleet.md#a-folder-that-workers-share)',
  },
  cacheDiskSize: {
    kind: bytes,
    default: 16 * 1024 ** 3,
    meaning: 'bytes of that folder, for all models together; what was used longest ago goes first',
  },
  cacheDiskAge: {
    kind: seconds,
    default: 30 * 86_400,
    meaning: 'how long blocks are kept there; 0 keeps them as long as there is room',
  },
  cacheDiskKey: {
    kind: text,
    meaning:
      'file of the key that [seals these blocks](security.md#kv-blocks-on-disk), made where it is absent; `store.key` in that folder where unset',
  },
  slotSavePath: {
    kind: text,
    meaning:
      'a folder in which `POST /slots/{id}` [saves prefixes](api.md#saved-slots), and from which it restores them; without it that is answered 501',
  },
  context: {
    kind: count,
    meaning: 'longest prompt and answer together; the model’s own limit where unset',
    short: 'c',
    aliases: ['ctx-size', 'max-model-len'],
  },
  maxBatchSize: {
    kind: count,
    meaning: 'sequences that run at once; what memory allows where unset',
    aliases: ['parallel', 'max-num-seqs'],
  },
  maxStepTokens: {
    kind: count,
    meaning: 'a fixed token budget for each step, in place of a target time',
    aliases: ['max-num-batched-tokens'],
  },
  targetStepMs: { kind: count, meaning: 'how long a step may take; chosen for the machine where unset' },
  stepTimeout: {
    kind: seconds,
    default: 60,
    meaning: 'an engine process that hangs for so long is replaced, and its requests go on; 0 waits for ever',
  },
  direct: { kind: onOff, default: false, meaning: 'no batching: one request at a time' },

  database: {
    kind: text,
    meaning:
      'keys, usage, responses, files and batches: a file, `~/.chairlift/chairlift.db` where unset, or `postgres://user@host/name`, which several servers may share',
  },
  databaseConnections: {
    kind: count,
    default: 4,
    meaning: 'connections that this server holds to a Postgres at most; one that is idle for 10 s is closed',
  },
  keepResponses: {
    kind: seconds,
    default: 30 * 86_400,
    meaning: 'how long conversations of `/v1/responses` stay in the database; 0 keeps none',
  },
  responsesLimit: {
    kind: bytes,
    default: 1024 ** 3,
    meaning: 'bytes of such conversations together; the oldest of whoever has most go first',
  },
  fileLimit: { kind: bytes, default: 200 * 1024 ** 2, meaning: 'largest file that `/v1/files` takes' },
  filesLimit: {
    kind: bytes,
    default: 2 * 1024 ** 3,
    meaning: 'bytes of all files of a key; what its batches leave counts, and is never refused',
  },
  keepFiles: {
    kind: seconds,
    default: 30 * 86_400,
    meaning: 'how long files and ended batches stay in the database; 0 keeps them until they are deleted',
  },
  maxBatchLines: { kind: count, default: 50_000, meaning: 'requests in a batch of `/v1/batches`' },
  batchConcurrency: {
    kind: count,
    default: 16,
    meaning:
      'requests of batches that run at once, of all gateways of a fleet that share a Postgres together; one at a gateway while other requests wait there for their first token',
  },
  allowAnonymous: {
    kind: onOff,
    default: false,
    meaning: 'without keys, serve other machines too; and everyone once all keys are revoked',
  },
  shareCache: {
    kind: onOff,
    default: false,
    meaning: 'keys share cached prefixes, which tells them what others have asked',
  },
  kvShareHigh: {
    kind: part,
    meaning:
      "part of a model's KV blocks, such as 0.5, that the running and cached sequences of one HIGH key may hold, where the key has no `kvShare` itself",
  },
  kvShareNormal: { kind: part, meaning: 'the same for each NORMAL key, and for all without a key together' },
  kvShareLow: { kind: part, meaning: 'the same for each LOW key' },

  join: {
    kind: servers,
    default: [],
    meaning:
      'servers of a NATS message system, such as `nats://10.0.0.1:4222`, or `tls://…` where nothing but TLS may be spoken: makes this a node of a [fleet](fleet.md), a worker and a gateway in one',
  },
  worker: {
    kind: onOff,
    default: false,
    meaning: 'of a fleet, a worker alone: it computes, and needs no port',
  },
  gateway: {
    kind: onOff,
    default: false,
    meaning: 'of a fleet, a gateway alone: it answers HTTP, and loads no model',
  },
  fleet: { kind: text, default: 'main', meaning: 'name of the fleet: several may share a message system' },
  node: {
    kind: text,
    meaning:
      'name of this node, unlike any other: one whose name is taken does not start; where unset, the machine’s name with role and port, such as `m1-gateway-8000`',
  },
  modelContent: {
    kind: list,
    default: [],
    meaning:
      'at a gateway, the content that models must have: `name=content`, 12 digits or more as `chairlift fleet` shows them; workers with another file by that name get none of its requests',
  },
  archive: {
    kind: { type: 'choice', values: ['memory', 'file', 'off'] },
    meaning:
      'where streams that have begun are kept, so that clients can resume them: `file`, `memory` or `off`. A server alone has them in its database (`file`, its default; one in Postgres needs `archiveKey`) or in its memory, where a restart loses them; a fleet in its message system, in memory (its default) or on disks (which needs `archiveKey`)',
  },
  archiveBytes: {
    kind: bytes,
    default: 512 * 1024 ** 2,
    meaning:
      'what such requests may take there; in a fleet all together, as the last gateway that started says',
  },
  archiveKey: {
    kind: text,
    meaning:
      'seals them (AES-256-GCM): the same at every gateway, and given to no worker; a server alone has one in a file beside its database; better given as `CHAIRLIFT_ARCHIVE_KEY`',
    secret: true,
  },
  natsUser: { kind: text, meaning: 'user at the message system; needs its password' },
  natsPassword: {
    kind: text,
    meaning: 'its password; better given as `CHAIRLIFT_NATS_PASSWORD`',
    secret: true,
  },
  natsToken: {
    kind: text,
    meaning: 'token for the message system; better given as `CHAIRLIFT_NATS_TOKEN`',
    secret: true,
  },
  natsCredentials: {
    kind: text,
    meaning:
      'file with the JWT and the seed of a user, as `nsc generate creds` writes it; read for each connection',
  },
  natsNkey: { kind: text, meaning: 'file with the seed of a user’s nkey; read for each connection' },
  natsCa: {
    kind: text,
    meaning:
      'certificates that the message system’s rests on, in PEM: nothing but TLS is spoken, and no other certificate trusted',
  },
  natsCert: { kind: text, meaning: 'certificate to show the message system, in PEM; needs its key' },
  natsKey: { kind: text, meaning: 'private key of that certificate, in PEM' },

  maxQueuedRequests: {
    kind: count,
    default: 512,
    meaning: 'waiting requests of a model; more are answered 429',
  },
  maxQueuedSequences: {
    kind: count,
    default: 32_768,
    meaning:
      'waiting sequences of a model, `n` for each prompt and one for each text to embed; more are answered 429, except a request that finds nothing waiting',
  },
  maxQueuedTokens: { kind: count, default: 1_000_000, meaning: 'prompt tokens of waiting requests together' },
  maxEmbeddingInputs: {
    kind: count,
    default: 2048,
    meaning: 'texts in a request to `/v1/embeddings`, documents in one to `/v1/rerank`',
  },
  bodyLimit: {
    kind: bytes,
    default: 8 * 1024 * 1024,
    meaning: 'largest request body; where images may come, there is room for `imagesLimit` besides',
  },
  imageLimit: { kind: bytes, default: 20 * 1024 ** 2, meaning: 'largest file of an image' },
  imagesLimit: { kind: bytes, default: 32 * 1024 ** 2, meaning: 'files of all images of a request together' },
  imagePixels: {
    kind: count,
    default: 50_000_000,
    meaning: 'pixels of an image; its header is asked before it is decoded',
  },
  maxImages: { kind: count, default: 32, meaning: 'images of a request' },
  imageHosts: {
    kind: list,
    default: [],
    meaning:
      'hosts that images are fetched from, such as `images.example` or `*.example` (HTTPS), or `http://10.0.0.5:8080`, an address of your own network; without any, images come as `data:` URLs alone',
  },
  requestTimeout: { kind: seconds, default: 600, meaning: 'no request takes longer; 0 sets no limit' },
  shutdownLimit: {
    kind: seconds,
    default: 30,
    meaning: 'how long running requests may go on after SIGTERM; 0 ends them at once',
  },

  logLevel: {
    kind: { type: 'choice', values: ['trace', 'debug', 'info', 'warn', 'error', 'silent'] },
    default: 'info',
    meaning: 'what is logged',
  },
  logFormat: {
    kind: { type: 'choice', values: ['auto', 'text', 'json'] },
    default: 'auto',
    meaning:
      'lines of the log: `text` for people, `json` for programs; `auto` is `text` at a terminal and `json` elsewhere',
  },
  logPrompts: {
    kind: onOff,
    default: false,
    meaning: 'log the text of prompts too, and show it with requests',
  },
  otlpEndpoint: {
    kind: text,
    variables: ['OTEL_EXPORTER_OTLP_ENDPOINT'],
    meaning:
      'an OpenTelemetry collector, such as `http://127.0.0.1:4318`, which is sent [traces](operations.md#traces) as OTLP over HTTP; also `OTEL_EXPORTER_OTLP_ENDPOINT`',
  },
  otlpHeaders: {
    kind: text,
    variables: ['OTEL_EXPORTER_OTLP_HEADERS'],
    meaning:
      'headers for it, `name=value,…`; better given as `CHAIRLIFT_OTLP_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS`',
    secret: true,
  },
  traceRatio: {
    kind: { type: 'part', orNone: true },
    variables: ['OTEL_TRACES_SAMPLER_ARG'],
    default: 1,
    meaning:
      'of requests without a `traceparent`, the part that traces are taken of; the others are taken as their clients say; also `OTEL_TRACES_SAMPLER_ARG`',
  },
} as const satisfies Record<string, ConfigOption>;

export type OptionName = keyof typeof configOptions;

/** Headings of the help, each from this setting on. */
export const optionGroups: Readonly<Partial<Record<OptionName, string>>> = {
  host: 'Addresses',
  model: 'Models',
  backend: 'Computing',
  database: 'Keys, files and limits of keys',
  join: 'Fleet',
  maxQueuedRequests: 'Limits of requests',
  logLevel: 'Log',
  otlpEndpoint: 'Traces',
};

export const optionNames = Object.keys(configOptions) as OptionName[];

/** Two ways to say the same: only one of each pair counts. */
export const exclusiveOptions = [['kvBlocks', 'kvMemory']] as const satisfies readonly (readonly [
  OptionName,
  OptionName,
])[];

/** `kvType` is `--kv-type`. */
export function flagOf(name: OptionName): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `kvType` is `CHAIRLIFT_KV_TYPE`. */
export function variableOf(name: OptionName): string {
  return `CHAIRLIFT_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
