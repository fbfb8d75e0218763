import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { ggufModel } from '../../test/support/model-files.ts';
import { runCommand } from '../../test/support/run-command.ts';
import type { Addon } from '../compute/cpu/binding.ts';
import type { ModelOnDisk } from '../pool/model-registry.ts';
import {
  addDoctor,
  type Check,
  checkAddon,
  checkCompiler,
  checkCuda,
  checkDatabase,
  checkEmbeddedModel,
  checkMemory,
  checkModels,
  checkNode,
  checkPort,
} from './doctor.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-doctor-'));
const config = join(root, 'config.json');
writeFileSync(config, '{}');
afterAll(() => rmSync(root, { recursive: true }));
let server: Server | undefined;
afterEach(() => {
  server?.close();
  server = undefined;
});

function listen(started: Server): Promise<number> {
  server = started;
  return new Promise((resolve) => {
    started.listen(0, '127.0.0.1', () => resolve((started.address() as AddressInfo).port));
  });
}

const doctor = (...words: string[]) =>
  runCommand(addDoctor, ['doctor', '--models-folder', root, '--config', config, ...words]);

const model: ModelOnDisk = { name: 'm', path: '/m', createdSeconds: 1, sizeBytes: 1000, format: 'gguf' };

describe('chairlift doctor', () => {
  it('finds that this machine serves, line by line', async () => {
    writeFileSync(join(root, 'a.gguf'), ggufModel);
    const { output, exitCode } = await doctor('--port', '0');
    for (const name of [
      'Node.js',
      'C++ compiler',
      'C++ addon',
      'memory',
      'embedded model',
      'models',
      'database',
      'port 0',
    ]) {
      expect(output).toMatch(new RegExp(`^(ok  |warn)  ${name.replaceAll('+', '\\+')} `, 'm'));
    }
    expect(output).toContain('2 to serve');
    expect(output.trimEnd()).toMatch(/This machine can serve\.$/);
    expect(exitCode).toBeUndefined();
  });

  it('ends with 1 where the port is taken, and says what helps', async () => {
    const port = await listen(createServer((socket) => socket.destroy()));
    const { output, exitCode } = await doctor('--port', String(port), '--json');
    expect(exitCode).toBe(1);
    expect(JSON.parse(output).find(({ state }: Check) => state === 'fail')).toMatchObject({
      name: `port ${port}`,
      remedies: [expect.stringContaining('another port')],
    });
  });

  it('is content with a port on which Chairlift serves already', async () => {
    const health = JSON.stringify({ status: 'ok', version: '1.2.3', engines: [] });
    const port = await listen(createHttpServer((_request, response) => response.end(health)));
    expect(await checkPort('127.0.0.1', port)).toMatchObject({
      state: 'ok',
      detail: 'Chairlift 1.2.3 serves here already',
    });
    expect(await checkPort('192.0.2.1', 1)).toMatchObject({ state: 'fail' });
  });
});

describe('its checks', () => {
  it('warn where a slower way remains, and fail where none does', async () => {
    expect(checkNode('18.19.0')).toMatchObject({ state: 'fail', remedies: [expect.stringContaining('20')] });
    const addon = { kernels: () => ['scalar', 'avx2'], instructionSets: () => ['scalar', 'avx2'] } as Addon;
    const foreign = { ...addon, instructionSets: () => ['scalar', 'avx2', 'avx512'] };
    const absent = { available: false, reason: 'run npm run setup' } as const;
    const prebuilt = { available: true, addon, origin: 'prebuilt' } as const;
    expect(await checkCompiler(() => undefined, absent)).toMatchObject({ state: 'warn' });
    expect(await checkCompiler(() => undefined, prebuilt)).toMatchObject({ state: 'ok' });
    expect(checkAddon(absent)).toMatchObject({ state: 'warn', remedies: ['run npm run setup'] });
    expect(checkAddon(prebuilt)).toMatchObject({
      state: 'ok',
      detail: 'loads, came with the package; kernels: scalar, avx2',
    });
    expect(checkAddon({ available: true, addon: foreign, origin: 'built' })).toMatchObject({
      state: 'warn',
      remedies: [expect.stringContaining('built for another processor')],
    });
    expect(checkEmbeddedModel(join(root, 'absent.gguf'))).toMatchObject({ state: 'warn' });
    expect(checkModels([], root)).toMatchObject({
      state: 'fail',
      remedies: [expect.stringContaining('pull')],
    });
    expect(checkModels([model, { ...model, problem: 'is cut' }], root)).toMatchObject({
      state: 'warn',
      detail: `1 to serve, 1 broken; folder ${root}`,
      remedies: ['is cut'],
    });
  });

  it('look whether the database could be written, and leave no trace', () => {
    const path = join(root, 'absent', 'deeper', 'a.db');
    expect(checkDatabase(path)).toEqual({ name: 'database', state: 'ok', detail: path });
    expect(existsSync(join(root, 'absent'))).toBe(false);
    expect(checkDatabase(join(config, 'a.db'))).toMatchObject({
      state: 'fail',
      detail: `${join(config, 'a.db')} cannot be made: ${config} is no folder`,
      remedies: [expect.stringContaining('--database')],
    });
    const readOnly = join(root, 'read-only');
    mkdirSync(readOnly, { mode: 0o555 });
    // The superuser may write anywhere.
    expect(checkDatabase(join(readOnly, 'a.db')).state).toBe(process.getuid?.() === 0 ? 'ok' : 'fail');
    expect(checkDatabase('postgres://me:secret@db/chairlift').detail).toBe(
      'postgres://me@db/chairlift; not asked here',
    );
  });

  it('compare the models with the memory', () => {
    const memory = { freeBytes: 5000, totalBytes: 8000 };
    const large = { ...model, name: 'large', sizeBytes: 6000 };
    expect(checkMemory([model], memory)).toMatchObject({ state: 'ok', detail: '5.00 KB free of 8.00 KB' });
    expect(checkMemory([model, large], memory)).toMatchObject({
      state: 'warn',
      remedies: [expect.stringContaining('large needs more than 6.00 KB')],
    });
    expect(checkMemory([large], memory)).toMatchObject({ state: 'fail' });
  });
});

describe('a GPU of NVIDIA', () => {
  it('is named with its compute capability and its memory', () => {
    const gpu = { number: 0, name: 'NVIDIA H200', capability: 90, totalBytes: 150e9 };
    const check = checkCuda({ found: true, gpu, freeBytes: 100e9 });
    expect(check.state).toBe('ok');
    expect(check.detail).toMatch(/^NVIDIA H200; compute capability 9\.0; 100.* free of 150/);
  });

  it('that a driver has and CUDA cannot use is worth a warning with the reason', () => {
    const check = checkCuda({ found: false, reason: 'the NVIDIA driver is too old' });
    expect(check).toMatchObject({ state: 'warn', remedies: ['the NVIDIA driver is too old'] });
  });
});
