// Writes each file of the page a second and a third time, compressed, so that the server need not; and refuses a page
// that has grown too large for a slow line.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';

/** As a browser without Brotli gets them: of what the first visit loads, and with what is loaded where it is needed. */
const MOST_FIRST_BYTES = 100 * 1024;
const MOST_BYTES = 250 * 1024;

export function compressed(folder: string): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      const first = readFileSync(join(folder, 'index.html'), 'utf8');
      let firstBytes = 0;
      let allBytes = 0;
      for (const path of filesIn(folder)) {
        const bytes = readFileSync(path);
        const gzip = gzipSync(bytes, { level: 9 });
        const brotli = brotliCompressSync(bytes, {
          params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
        });
        writeFileSync(`${path}.gz`, gzip);
        writeFileSync(`${path}.br`, brotli);
        allBytes += gzip.length;
        if (path.endsWith('index.html') || first.includes(basename(path))) firstBytes += gzip.length;
      }
      const sizes = `${inKilobytes(firstBytes)} at first, ${inKilobytes(allBytes)} in all`;
      if (firstBytes > MOST_FIRST_BYTES || allBytes > MOST_BYTES) {
        const most = `${inKilobytes(MOST_FIRST_BYTES)} and ${inKilobytes(MOST_BYTES)} are the most`;
        throw new Error(`the page is ${sizes}; ${most}`);
      }
      this.info(`the page is ${sizes}`);
    },
  };
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(gz|br)$/.test(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name));
}

function inKilobytes(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KB`;
}
