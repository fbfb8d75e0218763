import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { isatty } from 'node:tty';
import type { Command } from 'commander';
import { LogDestination } from '../app/log-destination.ts';
import type { Service } from '../app/service.ts';
import { type Config, processInputs, resolveConfig } from '../config.ts';
import { parseModelPath } from '../pool/model-names.ts';
import { locateModel } from '../pool/named-models.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { addConfigOptions } from './flags.ts';
import { LoadingBar } from './loading-bar.ts';
import { type FolderFlags, homesOf } from './models-on-disk.ts';
import { fetchAbsent } from './obtain-model.ts';
import { ownLogPlace, writeServerRecord } from './server-records.ts';
import { UsageError } from './usage-error.ts';

export function addServe(program: Command): void {
  const command = program
    .command('serve')
    .description('start the server')
    .argument(
      '[models...]',
      'as with --model: a path, hf:owner/repo:Q4_K_M, or a short name such as llama3.2:1b',
    )
    .usage('[models...] [options]');
  addConfigOptions(command)
    .addHelpText('after', EXAMPLES)
    .action((models: readonly string[], flags: Readonly<Record<string, unknown>>) => serve(models, flags));
}

const EXAMPLES = `
Examples:
  chairlift serve                                  what the models folder has, or the model that comes along
  chairlift serve llama3.2:1b                      pulled where it is not here
  chairlift serve hf:owner/repo:Q4_K_M -c 8192     with a shorter context
  chairlift serve small=path/to/model.gguf -p 8080 clients ask for it as small
  chairlift serve --host 0.0.0.0                   for other machines; make a key first, with chairlift keys create

Each setting can also be given in the environment, as CHAIRLIFT_MAX_BATCH_SIZE for --max-batch-size, and in the config file, as
maxBatchSize. 'chairlift config' shows which value counts.`;

async function serve(models: readonly string[], flags: Readonly<Record<string, unknown>>): Promise<void> {
  const resolved = resolveConfig(processInputs(withModels(models, flags)));
  const { config } = resolved;
  const stopping = new AbortController();
  let service: Service | undefined;
  // Closed outputs must not end the server.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => {});
  const notes = new LogDestination();
  process.on('exit', () => notes.flushSync());
  handleSignals({
    stop: () => {
      if (service !== undefined) notes.write(CLOSING);
      stopping.abort();
    },
    hurry: () => service?.hurry(),
    reload: () => void service?.reload(),
  });
  // Loaded after signal handlers are set.
  const { makeLogger, startService } = await import('../app/service.ts');
  const loading = new LoadingBar(notes);
  try {
    await pullMissing(config, flags, stopping.signal);
    service = await startService(resolved, makeLogger(config, loading), stopping.signal, loading.update);
    loading.end();
    // At a terminal it must not overtake the log.
    const isTerminal = process.stdout.isTTY === true && process.stderr.isTTY === true;
    (isTerminal ? notes : process.stdout).write(welcome(service));
    process.on('exit', recordServer(service));
    if (!stopping.signal.aborted) await once(stopping.signal, 'abort');
    await service.close();
  } catch (error) {
    loading.end();
    if (!stopping.signal.aborted) throw portProblem(error, config);
  }
  process.exit(0);
}

function withModels(
  models: readonly string[],
  flags: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (models.length === 0) return flags;
  return { ...flags, model: [...models, ...((flags.model as readonly string[] | undefined) ?? [])] };
}

/** Of `--model`, what has a name of the hub and is nowhere on this machine. */
async function pullMissing(config: Config, flags: FolderFlags, signal: AbortSignal): Promise<void> {
  // A gateway alone loads no model.
  if (config.gateway) return;
  for (const text of config.model) {
    const { path } = parseModelPath(text);
    const { absent } = locateModel(path, homesOf(flags));
    if (absent === undefined) continue;
    try {
      await fetchAbsent(absent, path, flags, signal);
    } catch (error) {
      // The others are served without it.
      if (!(error instanceof UsageError) || config.model.length === 1) throw error;
      process.stderr.write(`${error.message}\n`);
    }
  }
}

const CLOSING = 'closing: running requests may end, new ones are refused; again to stop at once\n';

function portProblem(error: unknown, { adminPort }: Config): unknown {
  const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  // An unreadable file has the same code, but no port.
  if ((code !== 'EADDRINUSE' && code !== 'EACCES') || port === undefined) return error;
  const problem = code === 'EACCES' ? 'may not be used' : 'is in use';
  const flag = port === adminPort ? '--admin-port' : '--port';
  return new UsageError(`port ${port} of ${address} ${problem}; choose another with ${flag}`);
}

/** So that `stop` and `logs` find it; a worker of a fleet has no address. */
function recordServer({ url }: Service): () => void {
  if (url === '') return () => {};
  const { environment, home } = processInputs({});
  const log = ownLogPlace(environment);
  return writeServerRecord(home, { host: hostname(), pid: process.pid, url, startedMs: Date.now(), log });
}

type Started = Pick<Service, 'url' | 'adminUrl' | 'model' | 'needsKey'>;

export function welcome({ url, adminUrl, model, needsKey }: Started): string {
  return [
    url === ''
      ? 'Chairlift works for its fleet'
      : `Chairlift listens on ${url} (open it in a browser; docs: ${url}/docs)`,
    ...(adminUrl === undefined ? [] : [`/metrics and /admin are on ${adminUrl}`]),
    ...(model === undefined ? ['models are those of the fleet’s workers'] : [described(model)]),
    ...(url === '' || model === undefined ? [] : ['', exampleFor(url, model, needsKey)]),
    '',
  ].join('\n');
}

function described({ name, direct, spec, blockCount }: ServedModel): string {
  const mode = direct ? ', without batching' : '';
  return `model ${name}: context ${spec.contextLength}, ${blockCount} KV blocks of 32 tokens${mode}`;
}

/** What a model is made for; one without a template can only continue texts. */
function exampleFor(
  url: string,
  { name, template, pooling, classifier }: ServedModel,
  needsKey: boolean,
): string {
  const key = needsKey ? ' -H "authorization: Bearer $KEY"' : '';
  const curl = (path: string, body: object) =>
    `curl ${url}${path}${key} -H 'content-type: application/json' -d '${JSON.stringify({ model: name, ...body })}'`;
  const keyed = needsKey
    ? ["KEY=…   # requests need a key; 'chairlift keys create --name NAME' makes one"]
    : [];
  if (classifier !== undefined) {
    const rerank = { query: 'How high is it?', documents: ['It is 2,500 m high.', 'It is old.'] };
    const classify = { input: ['It is high.'] };
    const isRanking = classifier.labels.length === 1;
    return [...keyed, curl(isRanking ? '/v1/rerank' : '/classify', isRanking ? rerank : classify)].join('\n');
  }
  if (pooling?.possible && pooling.declared) {
    return [...keyed, curl('/v1/embeddings', { input: ['It is high.'] })].join('\n');
  }
  if (template !== undefined) {
    const messages = [{ role: 'user', content: 'Hello, who are you?' }];
    return [...keyed, curl('/v1/chat/completions', { messages })].join('\n');
  }
  return [
    'it has no chat template and continues texts; --chat-template gives it one',
    '',
    ...keyed,
    curl('/v1/completions', { prompt: 'Once upon a time', max_tokens: 40 }),
  ].join('\n');
}

/**
 * Limit of a hurried stop. Longer than an engine may take to report what it computed for cancelled requests; where it
 * hangs, they are charged without it.
 */
const HURRY_MS = 10_000;

interface SignalHandlers {
  stop(): void;
  /** Asked to stop again: running requests are ended. */
  hurry(): void;
  reload(): void;
}

function handleSignals({ stop, hurry, reload }: SignalHandlers): void {
  let asked = 0;
  const onStop = () => {
    asked++;
    if (asked === 1) return stop();
    if (asked > 2) process.exit(1);
    setTimeout(() => process.exit(1), HURRY_MS).unref();
    hurry();
  };
  let terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor));
  process.on('SIGTERM', onStop);
  process.on('SIGINT', onStop);
  process.on('SIGHUP', () => {
    // A closed terminal ends the server, unless it was started with nohup or detached.
    const closed = terminals.filter((descriptor) => !isatty(descriptor));
    if (closed.length === 0) return reload();
    for (const descriptor of closed) leaveTerminal(descriptor);
    terminals = terminals.filter((descriptor) => !closed.includes(descriptor));
    if (asked === 0) onStop();
  });
}

/** Node resets its terminals on exit and crashes where one is gone: the descriptor is replaced by another file. */
function leaveTerminal(descriptor: number): void {
  closeSync(descriptor);
  openSync('/dev/null', 'r+');
}
