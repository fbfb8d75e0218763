import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Command } from 'commander';
import { LogDestination } from '../app/log-destination.ts';
import type { Service } from '../app/service.ts';
import { type Config, processInputs, resolveConfig } from '../config.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { addConfigOptions } from './flags.ts';
import { UsageError } from './usage-error.ts';

export function addServe(program: Command): void {
  const command = program.command('serve', { isDefault: false }).description('start the server');
  addConfigOptions(command).action(serve);
}

async function serve(flags: Readonly<Record<string, unknown>>): Promise<void> {
  const { config } = resolveConfig(processInputs(flags));
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
  try {
    service = await startService(config, makeLogger(config, notes), stopping.signal);
    process.stdout.write(welcome(service));
    if (!stopping.signal.aborted) await once(stopping.signal, 'abort');
    await service.close();
  } catch (error) {
    if (!stopping.signal.aborted) throw portProblem(error, config);
  }
  process.exit(0);
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

export function welcome({ url, adminUrl, model }: Pick<Service, 'url' | 'adminUrl' | 'model'>): string {
  return [
    url === '' ? 'Chairlift works for its fleet' : `Chairlift listens on ${url} (docs: ${url}/docs)`,
    ...(adminUrl === undefined ? [] : [`/metrics and /admin are on ${adminUrl}`]),
    ...(model === undefined ? ['models are those of the fleet’s workers'] : [described(model)]),
    ...(url === '' || model === undefined ? [] : ['', exampleFor(url, model)]),
    '',
  ].join('\n');
}

function described({ name, direct, spec, blockCount }: ServedModel): string {
  const mode = direct ? ', without batching' : '';
  return `model ${name}: context ${spec.contextLength}, ${blockCount} KV blocks of 32 tokens${mode}`;
}

/** A model without a template can only continue texts. */
function exampleFor(url: string, { name, template }: Pick<ServedModel, 'name' | 'template'>): string {
  const curl = (path: string, body: object) =>
    `curl ${url}${path} -H 'content-type: application/json' -d '${JSON.stringify({ model: name, ...body })}'`;
  if (template !== undefined) {
    return curl('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello, who are you?' }] });
  }
  return [
    'it has no chat template and continues texts; --chat-template gives it one',
    '',
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
