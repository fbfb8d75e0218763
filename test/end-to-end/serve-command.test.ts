// A server and the commands that find it: serve, ps, run, logs, stop, and chat with a key.

import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type HubStandIn, startHub } from '../support/hub-stand-in.ts';
import { atTerminal, environmentOf, program, runProgram as run } from '../support/program.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const bytes = readFileSync(embeddedModelPath);
const repositories = { 'ann/demo-GGUF': { 'demo-Q8_0.gguf': { bytes, lfs: true } } };

describe('chairlift serve', () => {
  const home = serverHome();
  let hub: HubStandIn;
  let server: ServerProcess;
  const place = () => ({ home: home.folder });
  beforeAll(async () => {
    hub = await startHub(repositories);
    home.environment = { HF_ENDPOINT: hub.url };
    server = await home.start('hf:ann/demo-GGUF:Q8_0', '-c', '512');
  });
  afterAll(() => hub.close());

  it('pulls the model of its argument, begins with the address, and answers to every name of the model', async () => {
    expect(server.output()).toMatch(
      /^Chairlift listens on http:\/\/127\.0\.0\.1:\d+ .*\nmodel ann\/demo-GGUF:Q8_0: context 512,/,
    );
    for (const model of [
      'ann/demo-GGUF:Q8_0',
      'hf:ann/demo-GGUF',
      'hf.co/ann/demo-GGUF:latest',
      'https://huggingface.co/ann/demo-GGUF',
    ]) {
      const response = await fetch(`${server.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, prompt: 'Once', max_tokens: 1 }),
      });
      expect(response.status).toBe(200);
    }
  });

  it('logs JSON where no terminal is', () => {
    for (const line of server
      .log()
      .trim()
      .split('\n')
      .filter((one) => one.includes('"level"')))
      expect(() => JSON.parse(line)).not.toThrow();
    expect(server.log()).toContain('"msg":"model loaded"');
  });

  it('is found by other commands on this machine, without an address', async () => {
    expect((await run(place(), ['ps'])).output).toContain('ann/demo-GGUF:Q8_0');
    const before = server.log().split('"msg":"completion"').length;
    expect((await run(place(), ['run', 'hf:ann/demo-GGUF', 'What is 1 + 1?'])).output).toBe('1 + 1 = 2.\n');
    await waitUntil(() => server.log().split('"msg":"completion"').length === before + 1);
    expect(await run(place(), ['logs'])).toMatchObject({
      notes: expect.stringContaining('gives its log to the program that started it'),
      code: 1,
    });
  });

  it('unloads a model at stop MODEL, and ends at stop', async () => {
    expect(await run(place(), ['stop', 'hf:ann/demo-GGUF'])).toMatchObject({
      output: 'ann/demo-GGUF:Q8_0 is unloaded\n',
      code: 0,
    });
    expect((await run(place(), ['ps'])).output).toMatch(/^No model is loaded/);
    expect(await run(place(), ['stop'])).toMatchObject({
      output: expect.stringMatching(/has stopped\n$/),
      code: 0,
    });
    expect(await server.exited).toBe(0);
    expect(await run(place(), ['stop'])).toMatchObject({
      notes: expect.stringContaining('no server of this user'),
      code: 1,
    });
  });

  it('is chatted with by a key, where it asks for one, and shows an example with it', async () => {
    const key = home.createKey('ann', 'normal');
    const keyed = await home.start(embeddedModelPath);
    expect(keyed.output()).toMatch(/KEY=.*\ncurl .* -H "authorization: Bearer \$KEY"/);
    const without = await run(place(), ['chat'], 'Hi\n');
    expect(without).toMatchObject({
      output: '',
      notes: expect.stringContaining('asks for a key; give it with --key'),
      code: 1,
    });
    const answered = await run(place(), ['chat', '--key', key], 'What is 2 + 2?\n');
    expect(answered).toMatchObject({ output: '2 + 2 = 4.\n', code: 0 });
    const named = await run(place(), ['chat', keyed.url, '--key', key], 'What is 2 + 2?\n');
    expect(named).toMatchObject({ output: '2 + 2 = 4.\n', code: 0 });
    await keyed.stop();
    // It was killed, and could not remove what it left.
    expect(await run(place(), ['stop'])).toMatchObject({
      notes: expect.stringContaining('no server of this user'),
      code: 1,
    });
  });

  it('has its log shown from a file, for people or as it is, and followed', async () => {
    const file = join(home.folder, 'server.log');
    const command = home
      .command()
      .map((word) => `'${word}'`)
      .join(' ');
    const shell = spawn(
      'sh',
      ['-c', `exec ${command} --allow-anonymous '${embeddedModelPath}' 2>'${file}'`],
      {
        env: environmentOf(place()),
        cwd: home.folder,
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
    let output = '';
    shell.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    await waitUntil(() => output.includes('listens on') && readFileSync(file, 'utf8').includes('listening'));
    const shown = await run(place(), ['logs', '-n', '2']);
    expect(shown.output).toMatch(
      /^\d\d:\d\d:\d\d {2}model loaded .*\n\d\d:\d\d:\d\d {2}listening url=http:\/\/127\.0\.0\.1:\d+ version=\S+\n$/,
    );
    const raw = await run(place(), ['logs', '-n', '1', '--json']);
    expect(JSON.parse(raw.output)).toMatchObject({ msg: 'listening', url: expect.stringMatching(/^http:/) });
    const follower = execFile(process.execPath, [program, 'logs', '-f', '-n', '1'], {
      env: environmentOf(place()),
      cwd: home.folder,
    });
    let followed = '';
    follower.stdout?.on('data', (text: string) => {
      followed += text;
    });
    await waitUntil(() => followed.includes('listening'));
    expect((await run(place(), ['stop'])).code).toBe(0);
    await waitUntil(() => followed.includes('model unloaded'));
    follower.kill();
  });

  it('logs for people at a terminal, and JSON there where that is asked for', async () => {
    for (const [flags, expected] of [
      [[], /\d\d:\d\d:\d\d\S* {2}.*model loaded.*Chairlift listens on/s],
      [['--log-format', 'json'], /\{"level":30,.*"msg":"model loaded"\}.*Chairlift listens on/s],
    ] as const) {
      const terminal = atTerminal(place(), ['serve', '-p', '0', '--database', home.database, ...flags]);
      await waitUntil(() => terminal.shown().includes('listens on'));
      expect(terminal.shown()).toMatch(expected);
      expect(terminal.shown()).not.toContain('Server listening');
      terminal.type('\x03');
      expect(await terminal.ended).toBe(0);
    }
  });
});
