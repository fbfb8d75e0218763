// A store through several lives on a simulated disk, by a seed: two processes write, follow, read and remove; each life ends where
// one of them is killed at some byte, or where the power goes; bits flip; the disk is full. After each the store is opened and all of
// it is read. Ends with what was found, or throws with what was wrong.

import { createHash } from 'node:crypto';
import type { IndexSlot } from '../../src/block-store/index-slots.ts';
import { keepStoreKey, openStoreKey } from '../../src/block-store/key-file.ts';
import { RecordReader } from '../../src/block-store/record-reader.ts';
import { DiskFull } from '../../src/block-store/room.ts';
import { Sealing } from '../../src/block-store/sealing.ts';
import { blocksPath, indexPath } from '../../src/block-store/segments.ts';
import { type BlockToWrite, StoreWriter } from '../../src/block-store/store-writer.ts';
import { type Random, seededRandom } from '../support/random-blocks.ts';
import { Killed, SimulatedDisk, SimulatedProcess } from './simulated-disk.ts';

const FOLDER = '/cache';
const MODELS = ['one-0123456789abcdef', 'two-0123456789abcdef'] as const;
const TENANTS = ['', 'alice', 'bob'] as const;
const LIVES = 10;

export interface EpisodeCounts {
  kills: number;
  losses: number;
  /** Read whole after the end of a life. */
  blocks: number;
  damaged: number;
  flips: number;
  full: number;
}

interface Block {
  readonly key: Uint8Array;
  readonly name: string;
  readonly tenant: string;
}

/** Of a block that must be there. */
interface Told {
  readonly model: string;
  readonly segment: string;
  readonly name: string;
  readonly tenant: string;
  isSynced: boolean;
}

function bytesOf(name: string): Uint8Array {
  const digest = createHash('sha512').update(name).digest();
  return new Uint8Array(Buffer.alloc(20 + ((digest[0] as number) << 2), digest));
}

interface Writing {
  readonly model: string;
  readonly writer: StoreWriter;
  readonly files: SimulatedProcess;
  /** What it has written to last, unless that has ended. */
  segment: string | undefined;
}

class Episode {
  readonly #random: Random;
  readonly #disk: SimulatedDisk;
  readonly #names = new Map<string, string>();
  readonly #sizeBytes: number;
  #told: Told[] = [];
  readonly #removed = new Set<string>();
  #blocks = 0;
  #nowMs = 1_700_000_000_000;
  #sealing: Sealing | undefined;
  readonly counts: EpisodeCounts = { kills: 0, losses: 0, blocks: 0, damaged: 0, flips: 0, full: 0 };

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#disk = new SimulatedDisk(this.#random);
    this.#sizeBytes = this.#random() < 0.5 ? 20_000 : 100_000;
  }

  run(): void {
    for (let life = 0; life < LIVES; life++) {
      const losesPower = this.#random() < 0.4;
      this.#live(losesPower);
      // Whole segments may have gone, for room or age.
      this.#told = this.#told.filter((told) => this.#isThere(told));
      if (losesPower) {
        this.#disk.losePower();
        this.counts.losses++;
        this.#told = this.#told.filter(({ isSynced }) => isSynced);
      }
      this.#disk.capacity = Number.POSITIVE_INFINITY;
      this.#check(this.#flip());
    }
  }

  #live(losesPower: boolean): void {
    const bytes = Math.floor(this.#random() ** 2 * 30_000);
    try {
      const one = this.#open(bytes);
      // Most of the time another process uses the store as well, of the same model or not. It survives the first one's death.
      const other = this.#random() < 0.6 ? this.#open(Number.POSITIVE_INFINITY) : undefined;
      for (let step = 0; step < 200; step++) {
        this.#nowMs += Math.floor(this.#random() * 2000);
        this.#step(other !== undefined && this.#random() < 0.4 ? other : one);
        if (losesPower && one.files.written > bytes / 2) return;
      }
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      this.counts.kills++;
    }
  }

  #open(bytesToLive: number): Writing {
    const files = new SimulatedProcess(this.#disk, bytesToLive);
    const key = openStoreKey(files, `${FOLDER}/store.key`, () => {});
    const sealing = new Sealing(key);
    const isNew = this.#sealing === undefined || Buffer.compare(this.#sealing.mark, sealing.mark) !== 0;
    if (isNew && this.#told.length > 0) throw new Error('the key is lost');
    const names = files.list(FOLDER).filter((name) => name.startsWith('store.key'));
    if (names.length !== 1) throw new Error(`the key lies in ${names}`);
    this.#sealing = sealing;
    const model = MODELS[this.#random() < 0.7 ? 0 : 1];
    const limits = {
      sizeBytes: this.#sizeBytes,
      ageMs: this.#random() < 0.2 ? 100_000 : undefined,
      segmentBytes: 3000 + Math.floor(this.#random() * 6000),
      segmentMs: 60_000,
    };
    const keepKey = () => keepStoreKey(files, `${FOLDER}/store.key`, key);
    const writer = new StoreWriter(files, { folder: FOLDER, model, sealing, limits, keepKey });
    writer.changes(this.#nowMs);
    return { model, writer, files, segment: undefined };
  }

  #step(writing: Writing): void {
    const { writer, files } = writing;
    const luck = this.#random();
    if (luck < 0.7) this.#write(writing);
    else if (luck < 0.8) writer.changes(this.#nowMs);
    else if (luck < 0.85) this.#again(writing);
    else if (luck < 0.88) this.#remove(writer);
    else if (luck < 0.94) {
      writer.end();
      for (const told of this.#told) if (told.segment === writing.segment) told.isSynced = true;
      writing.segment = undefined;
    } else {
      const isFull = this.#random() < 0.3;
      this.#disk.capacity = isFull ? this.#disk.bytes + this.#random() * 2000 : Number.POSITIVE_INFINITY;
    }
    if (files.openFiles > 2) throw new Error(`${files.openFiles} files are open`);
  }

  #write(writing: Writing): void {
    const blocks = Array.from({ length: 1 + Math.floor(this.#random() * 4) }, () => this.#newBlock());
    const toWrite = blocks.map(({ key, tenant, name }) => ({
      kind: 'new' as const,
      ...{ key, tenant, bytes: bytesOf(name), label: undefined },
    }));
    const segment = this.#tryToWrite(writing, toWrite);
    if (segment === undefined) return;
    for (const { name, tenant } of blocks) {
      this.#told.push({ model: writing.model, segment, name, tenant, isSynced: false });
    }
  }

  /** The segment that took them; undefined where the disk is full. */
  #tryToWrite(writing: Writing, blocks: readonly BlockToWrite[]): string | undefined {
    writing.segment = undefined;
    try {
      writing.segment = writing.writer.write(blocks, this.#nowMs)?.added.segment;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC' && !(error instanceof DiskFull)) throw error;
      this.counts.full++;
    }
    return writing.segment;
  }

  #again(writing: Writing): void {
    const found = this.#slots(writing.files, writing.model);
    const one = found[Math.floor(this.#random() * found.length)];
    if (one === undefined) return;
    const { segment, slot } = one;
    const place = { segment, offset: slot.offset, bytes: slot.bytes };
    const key = new Uint8Array(slot.key);
    this.#tryToWrite(writing, [{ kind: 'again', key, place, label: undefined, createdS: slot.createdS }]);
  }

  #remove(writer: StoreWriter): void {
    const tenant = TENANTS[1 + Math.floor(this.#random() * 2)] as string;
    // From here on its blocks may be there or not, until the removal has come to its end.
    this.#told = this.#told.filter((told) => told.tenant !== tenant);
    writer.remove(tenant);
    for (const name of this.#names.values()) if (name.startsWith(`${tenant} `)) this.#removed.add(name);
    this.#read(new SimulatedProcess(this.#disk));
  }

  #newBlock(): Block {
    const tenant = TENANTS[Math.floor(this.#random() * 3)] as string;
    const name = `${tenant} ${this.#blocks++}`;
    const key = createHash('sha256').update(name).digest();
    this.#names.set(key.toString('hex'), name);
    return { key, name, tenant };
  }

  #isThere({ model, segment }: Told): boolean {
    const paths = [blocksPath(FOLDER, model, segment), indexPath(FOLDER, model, segment)];
    return paths.every((path) => this.#disk.names.has(path));
  }

  #flip(): string | undefined {
    if (this.#random() > 0.15) return undefined;
    const flipped = this.#disk.flipBit(this.#random() < 0.7 ? '.blocks' : '.index');
    if (flipped !== undefined) this.counts.flips++;
    return flipped;
  }

  #check(flipped: string | undefined): void {
    const files = new SimulatedProcess(this.#disk);
    const { whole, damaged } = this.#read(files);
    this.counts.blocks += whole.length;
    this.counts.damaged += damaged;
    const names = new Set(whole);
    const missing = this.#told.filter(
      ({ name, segment }) => !names.has(name) && flipped?.includes(segment) !== true,
    );
    if (missing.length > 0)
      throw new Error(`${missing.length} blocks that were written are gone: ${missing[0]?.name}`);
    this.#told = this.#told.filter(({ name }) => names.has(name));
    if (files.openFiles !== 0) throw new Error('a file was left open');
  }

  #slots(files: SimulatedProcess, model: string): { readonly segment: string; readonly slot: IndexSlot }[] {
    if (this.#sealing === undefined) return [];
    const limits = { sizeBytes: this.#sizeBytes, segmentBytes: 1000, segmentMs: 1000 };
    const options = { folder: FOLDER, model, sealing: this.#sealing, limits, keepKey: () => {} };
    const { found } = new StoreWriter(files, options).changes(0);
    return found.flatMap(({ segment, slots }) => slots.map((slot) => ({ segment, slot })));
  }

  /** Names of all blocks that are whole; every other byte would be a wrong block. */
  #read(files: SimulatedProcess): { readonly whole: string[]; readonly damaged: number } {
    const whole: string[] = [];
    let damaged = 0;
    for (const model of MODELS) {
      const wanted = this.#slots(files, model).map(({ segment, slot: { key, offset, bytes } }) => {
        return { key: new Uint8Array(key), segment, offset, bytes };
      });
      const sealing = this.#sealing as Sealing;
      const blocks = this.#sealing ? new RecordReader(files, FOLDER, model, sealing).read(wanted) : [];
      for (const [at, block] of blocks.entries()) {
        const key = Buffer.from(wanted[at]?.key ?? []).toString('hex');
        const name = this.#names.get(key);
        if (typeof block === 'string') damaged += block === 'damaged' ? 1 : 0;
        else if (name === undefined) throw new Error(`a block was found that nobody wrote: ${key}`);
        else if (Buffer.compare(block, bytesOf(name)) !== 0) throw new Error(`'${name}' has wrong bytes`);
        else if (this.#removed.has(name)) throw new Error(`'${name}' is there after its removal`);
        else whole.push(name);
      }
    }
    return { whole, damaged };
  }
}

export function runEpisode(seed: number): EpisodeCounts {
  const episode = new Episode(seed);
  try {
    episode.run();
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
  }
  return episode.counts;
}
