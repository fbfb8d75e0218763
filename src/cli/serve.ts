// `chairlift serve`: starts the server, says where it is, and ends in good order.

import { once } from 'node:events';
import type { Command } from 'commander';
import { LogDestination } from '../app/log-destination.ts';
import type { Service } from '../app/service.ts';
import { type Config, processInputs, resolveConfig } from '../config.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { addConfigOptions } from './config-flags.ts';
import { handleSignals } from './serve-signals.ts';
import { UsageError } from './usage-error.ts';

export function addServe(program: Command): void {
  const command = program.command('serve', { isDefault: false }).description('start the server');
  addConfigOptions(command).action(serve);
}

async function serve(flags: Readonly<Record<string, unknown>>): Promise<void> {
  const { config } = resolveConfig(processInputs(flags));
  const stopping = new AbortController();
  let service: Service | undefined;
  // What nobody can read any more must not end the server.
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
  // Loaded once signals are heard.
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
  // A file that may not be read has the same code, and no port.
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

/** One that works: a model without a template continues texts alone. */
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
