// A disk and the processes that use it, for stores of blocks. A process can be killed at any byte that it writes; a loss of power
// keeps what was synced, and of everything else any part: sectors old, new, torn or zero, names there or not, each for itself.

import type { FileState, OpenFile, StoreFiles } from '../../src/block-store/store-files.ts';
import type { Random } from '../support/random-blocks.ts';

const SECTOR = 512;

interface Inode {
  content: Uint8Array;
  /** What a loss of power leaves at least. */
  synced: Uint8Array;
  links: number;
}

/** The process is dead: it does nothing any more, not even clean up. */
export class Killed extends Error {}

export class SimulatedDisk {
  readonly #random: Random;
  names = new Map<string, Inode>();
  /** They stay once they are there. */
  readonly folders = new Set<string>();
  #syncedNames = new Map<string, Inode>();
  /** Bytes that all files together may have. */
  capacity = Number.POSITIVE_INFINITY;

  constructor(random: Random) {
    this.#random = random;
  }

  get bytes(): number {
    return [...new Set(this.names.values())].reduce((sum, { content }) => sum + content.length, 0);
  }

  /** Nobody uses the disk at that moment. */
  losePower(): void {
    const names = new Map<string, Inode>();
    const old = new Set([...this.names.keys(), ...this.#syncedNames.keys()]);
    for (const name of old) {
      const inode = (this.#random() < 0.5 ? this.names : this.#syncedNames).get(name);
      if (inode !== undefined) names.set(name, inode);
    }
    for (const inode of new Set(names.values())) {
      inode.content = this.#afterPowerLoss(inode);
      inode.synced = inode.content.slice();
      inode.links = [...names.values()].filter((one) => one === inode).length;
    }
    this.names = names;
    this.#syncedNames = new Map(names);
  }

  /** A bit of some file whose name has this end; the name. */
  flipBit(end: string): string | undefined {
    const files = [...this.names].filter(([name, { content }]) => name.endsWith(end) && content.length > 0);
    const [name, inode] = files[Math.floor(this.#random() * files.length)] ?? [];
    if (inode === undefined) return undefined;
    const at = Math.floor(this.#random() * inode.content.length);
    const flipped = (inode.content[at] as number) ^ (1 << Math.floor(this.#random() * 8));
    inode.content[at] = flipped;
    if (at < inode.synced.length) inode.synced[at] = flipped;
    return name;
  }

  syncNames(folder: string): void {
    const isIn = (name: string) =>
      name.startsWith(`${folder}/`) && !name.slice(folder.length + 1).includes('/');
    for (const name of [...this.#syncedNames.keys()].filter(isIn)) this.#syncedNames.delete(name);
    for (const [name, inode] of this.names) if (isIn(name)) this.#syncedNames.set(name, inode);
  }

  #afterPowerLoss({ content, synced }: Inode): Uint8Array {
    const shorter = Math.min(content.length, synced.length);
    const longer = Math.max(content.length, synced.length);
    const length = shorter + Math.floor(this.#random() * (longer - shorter + 1));
    const result = new Uint8Array(length);
    for (let from = 0; from < length; from += SECTOR) {
      const to = Math.min(length, from + SECTOR);
      const [now, before] = [content.subarray(from, to), synced.subarray(from, to)];
      const isSame = now.length === before.length && now.every((byte, at) => byte === before[at]);
      const luck = this.#random();
      if (isSame || luck < 0.35) result.set(now, from);
      else if (luck < 0.6) result.set(before, from);
      else if (luck < 0.8) {
        result.set(before, from);
        result.set(now.subarray(0, Math.floor(this.#random() * now.length)), from);
      } else {
        // Zeros: but what was there already stays, for an append does not touch it.
        result.set(before, from);
      }
    }
    return result;
  }
}

/** A process with so many bytes to write before it is killed; other changes count as one. */
export class SimulatedProcess implements StoreFiles {
  readonly #disk: SimulatedDisk;
  readonly #open = new Map<OpenFile, Inode>();
  #opened = 0;
  #left: number;
  #isDead = false;
  written = 0;

  constructor(disk: SimulatedDisk, bytesToLive = Number.POSITIVE_INFINITY) {
    this.#disk = disk;
    this.#left = bytesToLive;
  }

  list(folder: string): readonly string[] {
    this.#live();
    const begin = `${folder}/`;
    const inside = [...this.#disk.names.keys(), ...this.#disk.folders].filter((name) =>
      name.startsWith(begin),
    );
    return [...new Set(inside.map((name) => name.slice(begin.length).split('/')[0] as string))];
  }

  makeFolder(path: string): void {
    this.#live();
    this.#disk.folders.add(path);
  }

  create(path: string): OpenFile | undefined {
    this.#live();
    if (this.#disk.names.has(path)) return undefined;
    this.#spend(1);
    const inode: Inode = { content: new Uint8Array(0), synced: new Uint8Array(0), links: 1 };
    this.#disk.names.set(path, inode);
    return this.#number(inode);
  }

  open(path: string): OpenFile | undefined {
    this.#live();
    const inode = this.#disk.names.get(path);
    return inode && this.#number(inode);
  }

  close(file: OpenFile): void {
    this.#live();
    this.#inode(file);
    this.#open.delete(file);
  }

  read(file: OpenFile, into: Uint8Array, position: number): number {
    this.#live();
    const some = this.#inode(file).content.subarray(position, position + into.length);
    into.set(some);
    return some.length;
  }

  write(file: OpenFile, parts: readonly Uint8Array[], position: number): void {
    this.#live();
    const inode = this.#inode(file);
    const all = Buffer.concat(parts);
    const room = Math.max(
      0,
      this.#disk.capacity - this.#disk.bytes + Math.max(0, inode.content.length - position),
    );
    const count = Math.min(all.length, this.#left, room);
    const grown = new Uint8Array(Math.max(inode.content.length, position + count));
    grown.set(inode.content);
    grown.set(all.subarray(0, count), position);
    inode.content = grown;
    this.written += count;
    this.#spend(Math.min(all.length, room));
    if (count < all.length) throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
  }

  truncate(file: OpenFile, bytes: number): void {
    this.#live();
    this.#spend(1);
    const inode = this.#inode(file);
    inode.content = inode.content.slice(0, bytes);
  }

  state(file: OpenFile): FileState {
    this.#live();
    const { content, links } = this.#inode(file);
    return { bytes: content.length, links };
  }

  bytesOf(path: string): number | undefined {
    this.#live();
    return this.#disk.names.get(path)?.content.length;
  }

  sync(file: OpenFile): void {
    this.#live();
    this.#spend(1);
    const inode = this.#inode(file);
    inode.synced = inode.content.slice();
  }

  syncFolder(path: string): void {
    this.#live();
    this.#spend(1);
    this.#disk.syncNames(path);
  }

  link(from: string, to: string): boolean {
    this.#live();
    const inode = this.#disk.names.get(from);
    if (inode === undefined || this.#disk.names.has(to)) return false;
    this.#spend(1);
    inode.links++;
    this.#disk.names.set(to, inode);
    return true;
  }

  rename(from: string, to: string): void {
    this.#live();
    this.#spend(1);
    const inode = this.#disk.names.get(from) as Inode;
    this.#disk.names.delete(from);
    this.#disk.names.set(to, inode);
  }

  remove(path: string): void {
    this.#live();
    const inode = this.#disk.names.get(path);
    if (inode === undefined) return;
    this.#spend(1);
    inode.links--;
    this.#disk.names.delete(path);
  }

  removeFolder(): void {
    this.#live();
  }

  room(): undefined {
    return undefined;
  }

  #live(): void {
    if (this.#isDead) throw new Killed();
  }

  #spend(amount: number): void {
    this.#left -= amount;
    if (this.#left >= 0) return;
    this.#isDead = true;
    throw new Killed();
  }

  #number(inode: Inode): OpenFile {
    this.#open.set(++this.#opened, inode);
    return this.#opened;
  }

  /** A file that is not open is a mistake of the store's. */
  #inode(file: OpenFile): Inode {
    const inode = this.#open.get(file);
    if (inode === undefined) throw new Error(`file ${file} is not open`);
    return inode;
  }

  get openFiles(): number {
    return this.#open.size;
  }
}
