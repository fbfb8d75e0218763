// A server of its own for benchmarks that put streams on it: with an admin key, and streams that begin again when they end.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Agent, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../bin/chairlift.js', import.meta.url));

export interface StreamedServer {
  readonly url: string;
  readonly key: string;
  readonly headers: { readonly authorization: string };
  readonly child: ChildProcess;
}

/** `folder` is for its database. */
export async function startServer(folder: string, flags: readonly string[]): Promise<StreamedServer> {
  const database = ['--database', join(folder, 'bench.db')];
  const made = execFileSync(
    process.execPath,
    [program, 'keys', 'create', '--name', 'viewer', '--admin', '--json', ...database],
    { encoding: 'utf8' },
  );
  const { key } = JSON.parse(made) as { key: string };
  const child = spawn(
    process.execPath,
    [program, 'serve', '--port', '0', '--speculation', 'off', '--log-level', 'warn', ...flags, ...database],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /https?:\/\/[^\s/]+/.exec(line)?.[0];
    if (url !== undefined) return { url, key, headers: { authorization: `Bearer ${key}` }, child };
  }
  throw new Error('the server did not start');
}

export async function stopServer({ child }: StreamedServer): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

interface Stream {
  readonly prompt: string;
  readonly tokens: number;
  readonly agent: Agent;
  readonly signal: AbortSignal;
}

export function keepStreaming(
  { url, headers }: StreamedServer,
  { prompt, tokens, agent, signal }: Stream,
): void {
  const again = () => {
    if (signal.aborted) return;
    const stream = request(`${url}/v1/completions`, {
      method: 'POST',
      agent,
      headers: { ...headers, 'content-type': 'application/json' },
      signal,
    });
    stream.on('response', (response) =>
      response
        .resume()
        .on('end', again)
        .on('error', () => {}),
    );
    stream.on('error', () => {});
    stream.end(JSON.stringify({ prompt, max_tokens: tokens, ignore_eos: true, stream: true }));
  };
  again();
}

/** Tokens so far, and sequences that run. */
export async function generated({
  url,
  headers,
}: StreamedServer): Promise<{ tokens: number; running: number; atMs: number }> {
  const { engines } = (await (await fetch(`${url}/admin/stats`, { headers })).json()) as {
    engines: readonly { stats: { generatedTokens: number; running: readonly unknown[] } }[];
  };
  const { generatedTokens: tokens = 0, running = [] } = engines[0]?.stats ?? {};
  return { tokens, running: running.length, atMs: performance.now() };
}
