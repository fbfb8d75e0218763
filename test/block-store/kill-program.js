// The program that `real-kills.js` kills: it writes blocks, reads them and follows the other one. It prints the names of blocks that
// it was told are written, and `wrong NAME` if one has other bytes than were written.

import { createHash } from 'node:crypto';
import { BlockStore } from '../../dist/block-store/block-store.js';

const [folder, name] = process.argv.slice(2);
const store = await BlockStore.open({
  folder,
  model: { name: 'killed', identity: 'killed' },
  sizeBytes: 400e6,
  segmentBytes: 4e6,
  followMs: 50,
  warn: (message) => process.stdout.write(`warning ${message}\n`),
});

const keyOf = (name) => createHash('sha256').update(name).digest();

function bytesOf(name) {
  const digest = createHash('sha512').update(name).digest();
  return new Uint8Array(Buffer.alloc(20_000 + digest[0] * 1000, digest));
}

process.stdout.write(`opened ${store.stats().blocks}\n`);
if (name === 'check') {
  // Names come from standard input; each must be there, whole.
  let text = '';
  for await (const chunk of process.stdin) text += chunk;
  const names = text.split('\n').filter(Boolean);
  for (let at = 0; at < names.length; at += 100) {
    const some = names.slice(at, at + 100);
    const blocks = await store.read(some.map(keyOf));
    for (const [index, one] of some.entries()) {
      if (blocks[index] === undefined) process.stdout.write(`missing ${one}\n`);
      else if (Buffer.compare(blocks[index], bytesOf(one)) !== 0) process.stdout.write(`wrong ${one}\n`);
    }
  }
  process.stdout.write(`damaged ${store.stats().damaged}\nwhole ${store.stats().hits}\n`);
  await store.close();
} else {
  for (let round = 0; ; round++) {
    const names = Array.from({ length: 8 }, (_, at) => `${name} ${round} ${at}`);
    for (const one of names) store.write(keyOf(one), 'tenant', bytesOf(one));
    await store.flush();
    process.stdout.write(names.map((one) => `${one}\n`).join(''));
    const blocks = await store.read(names.map(keyOf));
    for (const [at, block] of blocks.entries()) {
      if (block === undefined || Buffer.compare(block, bytesOf(names[at])) !== 0) {
        process.stdout.write(`wrong ${names[at]}\n`);
      }
    }
  }
}
