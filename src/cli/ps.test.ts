import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../test/support/run-command.ts';
import type { ModelEntry } from '../pool/model-pool.ts';
import { addPs } from './ps.ts';

let server: Server | undefined;
afterEach(() => {
  server?.close();
  server = undefined;
});

function serve(listener: RequestListener): Promise<string> {
  const started = createServer(listener);
  server = started;
  return new Promise((resolve) => {
    started.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(started.address() as AddressInfo).port}`),
    );
  });
}

const entry = { aliases: [], pinned: false, createdSeconds: 1, busy: 0 };
const models: ModelEntry[] = [
  {
    ...entry,
    name: 'big',
    path: '/m/big.gguf',
    state: 'loaded',
    memoryBytes: 4_200_000_000,
    computedBy: 'webgpu, Some GPU',
    busy: 3,
    pinned: true,
  },
  { ...entry, name: 'small', path: '/m/small.gguf', state: 'unloaded' },
  { ...entry, name: 'far', path: '', state: 'loaded', upstream: 'cloud' },
];

/** Like the server: the admin list for admins, names and states for all. */
const likeTheServer: RequestListener = ({ url, headers }, response) => {
  const isAdmin = headers.authorization === 'Bearer admin';
  const open = { data: models.map(({ name, state }) => ({ id: name, state })) };
  if (url === '/v1/models' && headers.authorization !== 'Bearer wrong') response.end(JSON.stringify(open));
  else if (url === '/admin/models' && isAdmin) response.end(JSON.stringify({ data: models }));
  else response.writeHead(url === '/v1/models' ? 401 : 403).end('{"error":{"message":"this needs a key"}}');
};

describe('chairlift ps', () => {
  it('shows what is loaded, with memory and requests, to an admin', async () => {
    const url = await serve(likeTheServer);
    const { output, notes } = await runCommand(addPs, ['ps', '--url', `${url}/`, '--key', 'admin']);
    const [headings, ...rows] = output.trimEnd().split('\n');
    expect(headings).toMatch(/^name +state +memory +computed by +requests +pinned +path$/);
    expect(rows).toEqual([
      expect.stringMatching(/^big +loaded +4\.20 GB +webgpu, Some GPU +3 +yes +\/m\/big\.gguf$/),
      expect.stringMatching(/^far +elsewhere +- +upstream cloud +0 +no/),
    ]);
    expect(notes).toBe('');
  });

  it('shows names and states without an admin key, and says what is missing', async () => {
    const url = await serve(likeTheServer);
    const { output, notes } = await runCommand(addPs, ['ps', '--url', url, '--all', '--json']);
    expect(JSON.parse(output)).toEqual([
      { name: 'big', state: 'loaded' },
      { name: 'small', state: 'unloaded' },
      { name: 'far', state: 'loaded' },
    ]);
    expect(notes).toContain('admin key');
  });

  it('says what to do where the key is wrong or no server is there', async () => {
    const url = await serve(likeTheServer);
    const refused = await runCommand(addPs, ['ps', '--url', url, '--key', 'wrong']);
    expect(refused.error).toMatchObject({
      message: 'the server refused (401): this needs a key; give a key with --key',
    });
    const absent = await runCommand(addPs, ['ps', '--url', 'http://127.0.0.1:9']);
    expect(absent.error).toMatchObject({
      message: expect.stringContaining("start one with 'chairlift serve'"),
    });
    const odd = await runCommand(addPs, ['ps', '--url', 'localhost:8000']);
    expect(odd.error).toMatchObject({
      message: expect.stringContaining('--url: localhost:8000 is no address'),
    });
  });
});
