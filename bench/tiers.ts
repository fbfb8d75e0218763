// `npm run bench -- tiers SHAPE:TYPE TOKENS [layers] [cpu|cuda]`: how soon a long prompt's first token comes where it was never
// computed, where its KV is in memory, in the machine's memory, and on the disk after the engine was ended and another one was
// started; with the same answer each time. Models with recurrent layers bring their states along.

import { writeFileSync } from 'node:fs';
import { countFrom, giveUp, print, report } from './harness.ts';
import { TierEngines } from './tier-engine.ts';

const ANSWER = 8;
const HOST_BYTES = 64 * 1024 ** 3;
const DROP_CACHES = '/proc/sys/vm/drop_caches';

const [model = 'llama-3.2-1b:q4_0', tokensText = '32768', layersText, backendName] = process.argv.slice(2);
const tokens = countFrom(tokensText, 'tokens');
const layers = layersText === undefined || layersText === '-' ? undefined : countFrom(layersText, 'layers');
const engines = new TierEngines(model, layers, backendName);
const { files, spec, choice } = engines;
if (spec.contextLength < tokens + ANSWER) giveUp(`${model} has a context of ${spec.contextLength}`);

/** With room for one prompt in memory. */
const open = (hostBytes: number) =>
  engines.open({ blockCount: engines.blocksOf(tokens + ANSWER), hostBytes, usesDisk: true });

async function measureLoads() {
  const first = await open(HOST_BYTES);
  const ask = (opened: typeof first, seed: number) => engines.ask(opened, seed, tokens, ANSWER);
  const cold = await ask(first, 1);
  const memory = await ask(first, 1);
  const other = await ask(first, 2);
  const host = await ask(first, 1);
  const endMs = await engines.end(first);
  const second = await open(0);
  const disk = await ask(second, 1);
  await engines.end(second);
  const dropped = dropCaches();
  const third = await open(0);
  const coldPages = dropped ? await ask(third, 1) : undefined;
  await engines.end(third);
  const coldMs = (cold.firstMs + other.firstMs) / 2;
  const figures = Object.entries({
    memory,
    host,
    disk,
    ...(coldPages && { 'disk, cold pages': coldPages }),
  }).map(([tier, { firstMs, cached, answer }]) => ({
    tier,
    firstMs,
    share: firstMs / coldMs,
    cached,
    same: answer.join() === cold.answer.join(),
  }));
  print(`cold: first token after ${coldMs.toFixed(0)} ms`);
  for (const { tier, firstMs, share, cached, same } of figures) {
    const percent = (100 * share).toFixed(2);
    print(
      `from ${tier}: ${firstMs.toFixed(0)} ms, ${percent} % of cold, ${cached} tokens; ${same ? 'the same answer' : 'ANOTHER ANSWER'}`,
    );
  }
  print(`ended in ${endMs.toFixed(0)} ms`);
  return { backend: first.backend, coldMs, endMs, figures };
}

/** Only root may. */
function dropCaches(): boolean {
  try {
    writeFileSync(DROP_CACHES, '1');
    return true;
  } catch {
    return false;
  }
}

print(`${files.path}, ${layers ?? 'all'} layers, ${tokens} tokens, ${choice.name}`);
report('tiers', { model: files.path, layers, tokens, ...(await measureLoads()) });
