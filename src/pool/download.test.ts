import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { type HubStandIn, type StandInFile, startHub } from '../../test/support/hub-stand-in.ts';
import { ggufModel, safetensorsConfig, safetensorsWeights } from '../../test/support/model-files.ts';
import { type PullOptions, type PullProgress, pullModel } from './download.ts';
import { PullError, parseReference } from './model-reference.ts';
import { findModels } from './model-registry.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-pull-'));
afterAll(() => rmSync(root, { recursive: true }));
let hub: HubStandIn;
afterEach(() => hub.close());

const patience = { attempts: 3, firstDelayMs: 1, silenceMs: 10_000 };
const big = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 31) % 251));
const gguf = (bytes: Uint8Array): StandInFile => ({ bytes, lfs: true });
const small = (text: string): StandInFile => ({ bytes: Buffer.from(text) });

const newFolder = () => mkdtempSync(join(root, 'models-'));

function pull(text: string, folder: string, options: Partial<PullOptions> & { token?: string } = {}) {
  const { token, ...rest } = options;
  return pullModel(parseReference(text), {
    folder,
    hub: { url: hub.url, ...(token === undefined ? {} : { token }) },
    signal: new AbortController().signal,
    onProgress: () => {},
    patience,
    ...rest,
  });
}

function filesUnder(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.[a-z]+$/.test(name))
    .sort();
}

async function failureOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => new Error('nothing was refused'),
    (reason: unknown) => reason,
  );
  if (error instanceof PullError) return error.message;
  throw error;
}

const rangesAsked = () => hub.contentRequests.map(({ headers }) => headers.range);

describe('pulling a model', () => {
  it('brings a GGUF that can then be found by the name of its repository', async () => {
    hub = await startHub({
      'ann/one-GGUF': { 'README.md': small('hello'), 'one-Q8_0.gguf': gguf(ggufModel) },
    });
    const folder = newFolder();
    const progress: PullProgress[] = [];
    const pulled = await pull('ann/one-GGUF', folder, { onProgress: (one) => progress.push(one) });
    const path = join(folder, 'ann/one-GGUF/one-Q8_0.gguf');
    expect(pulled).toEqual({ path, totalBytes: ggufModel.length });
    expect(readFileSync(path).equals(ggufModel)).toBe(true);
    expect(filesUnder(folder)).toEqual(['ann/one-GGUF/one-Q8_0.gguf']);
    expect(progress.at(-1)).toEqual({
      file: 'one-Q8_0.gguf',
      fileBytes: ggufModel.length,
      fileDoneBytes: ggufModel.length,
      checksum: { kind: 'sha256', hex: createHash('sha256').update(ggufModel).digest('hex') },
      doneBytes: ggufModel.length,
      totalBytes: ggufModel.length,
      cameBytes: ggufModel.length,
    });
    expect(findModels({ folder })).toMatchObject([{ name: 'one-GGUF', path, format: 'gguf' }]);
  });

  it('brings safetensors with everything beside them, through a list of several pages', async () => {
    hub = await startHub({
      'bob/tiny': {
        'README.md': small('hello'),
        'chat_template.jinja': small('{{ messages }}'),
        'config.json': { bytes: safetensorsConfig },
        'generation_config.json': small('{}'),
        'model.safetensors': gguf(safetensorsWeights),
        'onnx/model.onnx': gguf(big),
        'pytorch_model.bin': gguf(big),
        'tokenizer.json': small('{"version":"1.0"}'),
      },
    });
    const folder = newFolder();
    expect(await pull('hf:bob/tiny', folder)).toMatchObject({ path: join(folder, 'bob/tiny') });
    expect(filesUnder(join(folder, 'bob/tiny'))).toEqual([
      'chat_template.jinja',
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'tokenizer.json',
    ]);
    expect(findModels({ folder })).toMatchObject([{ name: 'tiny', format: 'safetensors' }]);
    expect(findModels({ folder })[0]).not.toHaveProperty('problem');
  });

  it('goes on by itself where the connection was cut, asking only for what is missing', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.cutAfter = [100_000, 50_000, 0, 10_000];
    const { path } = await pull('ann/big', newFolder());
    expect(readFileSync(path).equals(big)).toBe(true);
    const starts = rangesAsked().map((range) => Number(range?.slice('bytes='.length, -1)));
    expect(starts[0]).toBe(0);
    expect(starts[1]).toBeGreaterThan(0);
    expect(starts).toEqual([...starts].sort((a, b) => a - b));
    expect(starts.length).toBe(5);
  });

  it('gives up after some attempts that bring nothing, and goes on when asked again', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.cutAfter = [100_000, 0, 0, 0];
    const folder = newFolder();
    expect(await failureOf(pull('ann/big', folder))).toMatch(
      /big\.gguf: the connection was lost .* pull again/,
    );
    const kept = readFileSync(join(folder, 'ann/big/big.gguf.part'));
    expect(kept.length).toBeGreaterThan(0);
    expect(kept.equals(big.subarray(0, kept.length))).toBe(true);
    expect(existsSync(join(folder, 'ann/big/big.gguf'))).toBe(false);
    hub.contentRequests.length = 0;
    hub.faults.cutAfter = [];
    let came = 0;
    const onProgress = ({ cameBytes }: PullProgress) => {
      came = cameBytes;
    };
    const { path } = await pull('ann/big', folder, { onProgress });
    expect(came).toBe(big.length - kept.length);
    expect(rangesAsked()).toEqual([`bytes=${kept.length}-`]);
    expect(readFileSync(path).equals(big)).toBe(true);
    expect(existsSync(`${path}.part`)).toBe(false);
  });

  it('starts anew where the server knows no ranges', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.noRanges = true;
    hub.faults.cutAfter = [100_000];
    const { path } = await pull('ann/big', newFolder());
    expect(readFileSync(path).equals(big)).toBe(true);
    expect(hub.contentRequests.length).toBe(2);
  });

  it('starts anew where the server says that there is no such range', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.cutAfter = [100_000];
    hub.faults.statuses = [0, 416];
    const { path } = await pull('ann/big', newFolder());
    expect(readFileSync(path).equals(big)).toBe(true);
    expect(rangesAsked().at(-1)).toBe('bytes=0-');
  });

  it('refuses a range that was not asked for', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.shiftRanges = 10;
    const folder = newFolder();
    expect(await failureOf(pull('ann/big', folder))).toContain(
      'another part of the file than it was asked for',
    );
    expect(readFileSync(join(folder, 'ann/big/big.gguf.part')).length).toBe(0);
  });

  it('tries again when the server stumbles, and when it falls silent', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.statuses = [503, 429];
    hub.faults.hangAfter = [1000];
    const { path } = await pull('ann/big', newFolder(), { patience: { ...patience, silenceMs: 500 } });
    expect(rangesAsked()).toEqual(['bytes=0-', 'bytes=0-', 'bytes=0-', 'bytes=1000-']);
    expect(readFileSync(path).equals(big)).toBe(true);
  });

  it('refuses content with a wrong checksum and leaves nothing of it', async () => {
    const files = { 'config.json': { ...small('{}'), lies: true }, 'model.safetensors': gguf(big) };
    hub = await startHub({ 'ann/big': { 'big.gguf': { ...gguf(big), lies: true } }, 'bob/git': files });
    const folder = newFolder();
    expect(await failureOf(pull('ann/big', folder))).toMatch(
      /big\.gguf: .*wrong sha256 checksum.*Pull again/s,
    );
    expect(await failureOf(pull('bob/git', folder))).toMatch(/config\.json: .*wrong git checksum/);
    expect(filesUnder(folder)).toEqual([]);
  });

  it('finds a damaged part by its checksum, so that the next pull brings the right file', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    const folder = newFolder();
    const path = join(folder, 'ann/big/big.gguf');
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.part`, Buffer.alloc(1000, 1));
    expect(await failureOf(pull('ann/big', folder))).toContain('wrong sha256');
    await pull('ann/big', folder);
    expect(readFileSync(path).equals(big)).toBe(true);
  });

  it('transfers nothing that is there already, and replaces what differs', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    const folder = newFolder();
    const outcomes: string[] = [];
    const onFile: PullOptions['onFile'] = ({ path }, outcome) => outcomes.push(`${path} ${outcome}`);
    const { path } = await pull('ann/big', folder, { onFile });
    await pull('ann/big', folder, { onFile });
    expect(hub.contentRequests.length).toBe(1);
    writeFileSync(path, Buffer.alloc(big.length));
    await pull('ann/big', folder, { onFile });
    expect(outcomes).toEqual(['big.gguf fetched', 'big.gguf present', 'big.gguf fetched']);
    expect(readFileSync(path).equals(big)).toBe(true);
  });

  it('keeps what came when it is interrupted', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.hangAfter = [50_000];
    const folder = newFolder();
    const interrupt = new AbortController();
    const onProgress = ({ doneBytes }: PullProgress) => {
      if (doneBytes >= 50_000) interrupt.abort(new Error('interrupted'));
    };
    await expect(pull('ann/big', folder, { signal: interrupt.signal, onProgress })).rejects.toThrow(
      'interrupted',
    );
    expect(readFileSync(join(folder, 'ann/big/big.gguf.part')).equals(big.subarray(0, 50_000))).toBe(true);
  });

  it('gives the token to the hub and not to the host it redirects to', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.token = 'hf_secret';
    await pull('ann/big', newFolder(), { token: 'hf_secret' });
    expect(hub.contentRequests.length).toBe(1);
    expect(JSON.stringify(hub.contentRequests)).not.toContain('hf_secret');
    expect(await failureOf(pull('ann/big', newFolder()))).toMatch(/needs an access token \(401\).*HF_TOKEN/);
    expect(await failureOf(pull('ann/big', newFolder(), { token: 'wrong' }))).toContain(
      'does not accept the access token',
    );
  });

  it.each([401, 403] as const)('says what to do about a gated model (%s)', async (status) => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    hub.faults.gated = status;
    const folder = newFolder();
    expect(await failureOf(pull('ann/big', folder))).toMatch(new RegExp(`gated.*${hub.url}/ann/big`, 's'));
  });

  it('says that a repository does not exist, and that a hub cannot be reached', async () => {
    hub = await startHub({});
    expect(await failureOf(pull('ann/none', newFolder()))).toContain('there is no model ann/none');
    const closed = { url: 'http://127.0.0.1:9' };
    expect(await failureOf(pull('ann/none', newFolder(), { hub: closed }))).toContain('cannot be reached');
  });

  it('refuses before the transfer what does not fit on the disk, counting what is there', async () => {
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(big) } });
    const folder = newFolder();
    const freeBytes = async () => 200_000;
    expect(await failureOf(pull('ann/big', folder, { freeBytes }))).toMatch(
      /still to come, but .* free; make room/,
    );
    expect(hub.contentRequests).toEqual([]);
    writeFileSync(join(folder, 'ann/big/big.gguf.part'), big.subarray(0, 150_000));
    await pull('ann/big', folder, { freeBytes });
    expect(rangesAsked()).toEqual(['bytes=150000-']);
  });

  it('refuses file names that lead out of the folder', async () => {
    hub = await startHub({ 'ann/evil': { '../../evil.gguf': gguf(big) } });
    const folder = newFolder();
    expect(await failureOf(pull('ann/evil', folder))).toContain('unsafe name');
    expect(filesUnder(root).filter((name) => name.includes('evil'))).toEqual([]);
  });
});
