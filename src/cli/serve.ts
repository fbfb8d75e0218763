// `chairlift serve`: starts the server, says where it is, and ends in good order.

import type { Command } from 'commander';
import { type Service, startService } from '../app/service.ts';
import { processInputs, resolveConfig } from '../config.ts';
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

function welcome({ url, adminUrl, model }: Service): string {
  const body = JSON.stringify({
    model: model.name,
    messages: [{ role: 'user', content: 'Hello, who are you?' }],
  });
  const mode = model.direct ? ', without batching' : '';
  return [
    `Chairlift listens on ${url} (docs: ${url}/docs)`,
    ...(adminUrl === undefined ? [] : [`/metrics and /admin are on ${adminUrl}`]),
    `model ${model.name}: context ${model.spec.contextLength}, ${model.blockCount} K/V blocks of 32 tokens${mode}`,
    '',
    `curl ${url}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`,
    '',
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
