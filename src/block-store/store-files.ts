// What a block store asks of a file system: few calls, all of them blocking, made in threads of their own. A simulated one can
// stop at any byte.

/** An open file. */
export type OpenFile = number;

export interface FileState {
  readonly bytes: number;
  /** Zero where the file was removed while it is open. */
  readonly links: number;
}

export interface DiskRoom {
  readonly bytes: number;
  /** That this user may still write. */
  readonly freeBytes: number;
}

/** An absent file is a result; every other failure is thrown. */
export interface StoreFiles {
  /** Names in a folder; none where it is absent. */
  list(folder: string): readonly string[];
  /** For the owner alone, with the folders above it. */
  makeFolder(path: string): void;
  /** For the owner alone, to be written and read. Undefined where there is one. */
  create(path: string): OpenFile | undefined;
  /** Undefined where there is none. */
  open(path: string, access: 'read' | 'change'): OpenFile | undefined;
  close(file: OpenFile): void;
  /** Fewer bytes than there is room for only at the file's end. */
  read(file: OpenFile, into: Uint8Array, position: number): number;
  /** The parts one after the other. A part of them may be written where it throws. */
  write(file: OpenFile, parts: readonly Uint8Array[], position: number): void;
  truncate(file: OpenFile, bytes: number): void;
  state(file: OpenFile): FileState;
  /** Undefined where there is none. */
  bytesOf(path: string): number | undefined;
  /** What was written outlives a loss of power once this returns. */
  sync(file: OpenFile): void;
  /** The same for names in a folder. */
  syncFolder(path: string): void;
  /** Gives a file a further name, at once and whole. False where the name is taken, or the file gone. */
  link(from: string, to: string): boolean;
  rename(from: string, to: string): void;
  /** Nothing where there is none. */
  remove(path: string): void;
  /** A folder that is empty. */
  removeFolder(path: string): void;
  /** Of the folder's disk; undefined where that is unknown. */
  room(folder: string): DiskRoom | undefined;
}
