// A one-line progress bar on standard error; nothing where that is no terminal.

export interface ProgressBar {
  update(share: number): void;
  /** Wipes the line, so that what follows starts clean. */
  end(): void;
}

const WIDTH = 30;

export function progressBar(label: string, stream: NodeJS.WriteStream = process.stderr): ProgressBar {
  if (!stream.isTTY) return { update: () => {}, end: () => {} };
  let shown = -1;
  return {
    update(share) {
      const percent = Math.floor(share * 100);
      if (percent === shown) return;
      shown = percent;
      const filled = Math.round(share * WIDTH);
      stream.write(`\r${label} [${'='.repeat(filled)}${' '.repeat(WIDTH - filled)}] ${percent}%`);
    },
    end() {
      stream.write('\r\x1b[2K');
    },
  };
}
