// A one-line progress bar on standard error; nothing where that is no terminal.

export interface ProgressBar {
  /** The note stands behind the percentage. */
  update(share: number, note?: string): void;
  /** Wipes the line, so that what follows starts clean. */
  end(): void;
}

const WIDTH = 30;

export function progressBar(label: string, stream: NodeJS.WriteStream = process.stderr): ProgressBar {
  if (!stream.isTTY) return { update: () => {}, end: () => {} };
  let shown = '';
  return {
    update(share, note = '') {
      const text = `${Math.floor(share * 100)}% ${note}`.trimEnd();
      if (text === shown) return;
      shown = text;
      const filled = Math.round(share * WIDTH);
      stream.write(`\r${label} [${'='.repeat(filled)}${' '.repeat(WIDTH - filled)}] ${text}\x1b[K`);
    },
    end() {
      stream.write('\r\x1b[2K');
    },
  };
}
