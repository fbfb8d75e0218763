// `chairlift serve`: starts the server, says where it is, and ends in good order.

import type { Command } from 'commander';
import { type Service, startService } from '../app/service.ts';
import { processInputs, resolveConfig } from '../config.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { addConfigOptions } from './config-flags.ts';
import { UsageError } from './usage-error.ts';

export function addServe(program: Command): void {
  const command = program.command('serve', { isDefault: false }).description('start the server');
  addConfigOptions(command).action(serve);
}

async function serve(flags: Readonly<Record<string, unknown>>): Promise<void> {
  const { config } = resolveConfig(processInputs(flags));
  let service: Service;
  try {
    service = await startService(config);
  } catch (error) {
    const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
    // A file that may not be read has the same code, and no port.
    if ((code !== 'EADDRINUSE' && code !== 'EACCES') || port === undefined) throw error;
    const problem = code === 'EACCES' ? 'may not be used' : 'is in use';
    const flag = port === config.adminPort ? '--admin-port' : '--port';
    throw new UsageError(`port ${port} of ${address} ${problem}; choose another with ${flag}`);
  }
  process.stdout.write(welcome(service));
  closeOnSignals(service);
  process.on('SIGHUP', () => void service.reload());
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
  return `model ${name}: context ${spec.contextLength}, ${blockCount} K/V blocks of 32 tokens${mode}`;
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

/** The first signal lets running requests end; a second one ends them. */
function closeOnSignals(service: Service): void {
  let closing = false;
  const onSignal = () => {
    if (closing) process.exit(1);
    closing = true;
    process.stderr.write('closing: running requests may end, new ones are refused; again to stop at once\n');
    service.close().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`chairlift: ${error instanceof Error ? error.stack : error}\n`);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}
