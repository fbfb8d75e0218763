// Files of saved slots, on the disk of this machine.

import { createHash, randomBytes } from 'node:crypto';
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nodeFiles } from './node-files.ts';
import { Sealing } from './sealing.ts';
import { SlotFileError, SlotFileReader, SlotFileWriter } from './slot-file.ts';
import type { StoreFiles } from './store-files.ts';

const sealing = new Sealing(randomBytes(32));
const records = [100, 1, 4096].map((bytes, at) => ({
  key: createHash('sha256').update(`${at}`).digest(),
  bytes: new Uint8Array(randomBytes(bytes)),
}));
const manifest = new Uint8Array(Buffer.from('{"of":"ann"}'));
const nowMs = 1_700_000_000_000;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-slot-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const place = (owner = 'ann', name = 'one.bin') => ({ folder: join(folder, 'own'), name, owner });

function write(files: StoreFiles = nodeFiles, own = manifest): number {
  const writer = new SlotFileWriter(files, place(), sealing, nowMs);
  try {
    for (const record of records) writer.add(record);
    return writer.finish(own);
  } catch (error) {
    writer.abort();
    throw error;
  }
}

/** All blocks, or why there are none. */
function read(from = place(), by = sealing): Uint8Array[] | string {
  try {
    const reader = new SlotFileReader(nodeFiles, from, by);
    try {
      expect(new Uint8Array(reader.manifest)).toEqual(manifest);
      return records.map(({ key, bytes }) => new Uint8Array(reader.take(key, bytes.length)));
    } finally {
      reader.close();
    }
  } catch (error) {
    if (error instanceof SlotFileError) return error.failure;
    throw error;
  }
}

describe('a file of a saved slot', () => {
  it('gives back what was written, is its owner’s alone, and says its size', () => {
    const bytes = write();
    expect(read()).toEqual(records.map((record) => record.bytes));
    const { mode, size } = statSync(join(folder, 'own', 'one.bin'));
    expect([mode & 0o777, size]).toEqual([0o600, bytes]);
    expect(statSync(join(folder, 'own')).mode & 0o777).toBe(0o700);
  });

  it('holds nothing in the clear', () => {
    write();
    const content = readFileSync(join(folder, 'own', 'one.bin'));
    expect(content.includes(Buffer.from('ann'))).toBe(false);
    for (const { bytes } of records.slice(2))
      expect(content.includes(Buffer.from(bytes.subarray(0, 16)))).toBe(false);
  });

  it('is refused wherever a byte of it was changed', () => {
    write();
    const path = join(folder, 'own', 'one.bin');
    const whole = readFileSync(path);
    // The mark of the key and the tag of the owner say whose it is; all else that it is damaged.
    for (let at = 0; at < whole.length; at += at < 400 || at > whole.length - 200 ? 1 : 97) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] as number) ^ 1;
      writeFileSync(path, changed);
      expect(['damaged', 'foreign'], `byte ${at}`).toContain(read());
    }
  });

  it('is refused wherever it was cut, or goes on', () => {
    write();
    const path = join(folder, 'own', 'one.bin');
    const whole = readFileSync(path);
    for (let bytes = 0; bytes < whole.length; bytes += bytes < 200 ? 1 : 61) {
      writeFileSync(path, whole.subarray(0, bytes));
      expect(read(), `${bytes} bytes`).toBe('damaged');
    }
    writeFileSync(path, Buffer.concat([whole, Buffer.from([0])]));
    expect(read()).toBe('damaged');
  });

  it('is another key’s where that one saved it, or where the store has another key', () => {
    write();
    expect(read(place('bob'))).toBe('foreign');
    expect(read(place(), new Sealing(randomBytes(32)))).toBe('foreign');
    expect(read(place('ann', 'two.bin'))).toBe('absent');
    copyFileSync(join(folder, 'own', 'one.bin'), join(folder, 'own', 'two.bin'));
    expect(read(place('ann', 'two.bin'))).toHaveLength(records.length);
  });

  it('takes no more blocks than it has', () => {
    write();
    const reader = new SlotFileReader(nodeFiles, place(), sealing);
    for (const { key, bytes } of records) reader.take(key, bytes.length);
    expect(() => reader.take(records[0]?.key as Buffer, 100)).toThrow('fewer blocks');
    reader.close();
  });

  it('is as it was, and nothing else is left, where the disk is full at any write of the next one', () => {
    write();
    const before = readFileSync(join(folder, 'own', 'one.bin'));
    let left = 0;
    const full: StoreFiles = {
      ...nodeFiles,
      write: (...given) => {
        if (left-- <= 0) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
        nodeFiles.write(...given);
      },
      sync: (file) => {
        if (left-- <= 0) throw Object.assign(new Error('input or output'), { code: 'EIO' });
        nodeFiles.sync(file);
      },
    };
    const writes = records.length + 4;
    for (let count = 0; count < writes; count++) {
      left = count;
      expect(() => write(full), `after ${count}`).toThrow();
      expect(readdirSync(join(folder, 'own'))).toEqual(['one.bin']);
      expect(readFileSync(join(folder, 'own', 'one.bin')).equals(before)).toBe(true);
    }
    left = writes;
    write(full);
    expect(read()).toHaveLength(records.length);
  });

  it('is cleared of what processes that were killed have left, once that is a day old', () => {
    new SlotFileWriter(nodeFiles, place(), sealing, nowMs).add(records[0] as (typeof records)[0]);
    const left = () => readdirSync(join(folder, 'own')).length;
    write();
    expect(left()).toBe(2);
    const later = new SlotFileWriter(nodeFiles, place(), sealing, nowMs + 25 * 3_600_000);
    later.finish(manifest);
    expect(left()).toBe(1);
  });
});
