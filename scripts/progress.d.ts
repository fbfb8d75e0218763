// See progress.js.

export interface Pieces {
  add(count: number): void;
  done(): void;
}

export class Progress {
  constructor(
    prefix: string,
    stream?: {
      readonly isTTY?: boolean | undefined;
      readonly columns?: number | undefined;
      write(text: string): void;
    },
  );
  /** A line that stays. */
  log(line: string): void;
  /** Runs `work` as a task that the line names; it may tell how many pieces there are, and of which kind. */
  during<T>(name: string, work: (pieces: Pieces) => Promise<T>, kind?: string): Promise<T>;
}
