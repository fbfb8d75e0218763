// The programs of examples/, started as their first lines say, with the embedded model.

import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../examples/', import.meta.url));
// Empty, so that no one's models are served.
const home = mkdtempSync(join(tmpdir(), 'chairlift-examples-'));
afterAll(() => rmSync(home, { recursive: true }));

/** Standard output in blocks of lines; fails where the program fails or says anything else. */
async function blocks(name: string): Promise<string[][]> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, name)], {
    cwd: home,
    env: { ...process.env, HOME: home, USERPROFILE: home },
  });
  expect(stderr).toBe('');
  return stdout
    .trimEnd()
    .split('\n\n')
    .map((block) => block.split('\n'));
}

it('are three', () => {
  // receipt.js needs a model that reads images.
  expect(readdirSync(folder).sort()).toEqual(['agent.js', 'extraction.js', 'receipt.js', 'retrieval.js']);
});

it('agent.js calls the tools that a question needs, and answers with their results', async () => {
  const [weather, both, sum, unknown, fact] = await blocks('agent.js');
  expect(weather?.slice(1)).toEqual([
    '  get_weather({"city": "Oslo"}) → {"condition": "rainy", "temperature": 7}',
    '  The condition is rainy and the temperature is 7.',
  ]);
  expect(both?.[1]).toMatch(/^ {2}get_time\({"city": "Tokyo"}\)/);
  expect(both?.[2]).toMatch(/^ {2}get_weather\({"city": "Lima"}\)/);
  expect(both?.[3]).toMatch(
    /^ {2}The time is \d\d:\d\d\. The condition is cloudy and the temperature is 18\.$/,
  );
  expect(sum?.at(-1)).toContain('933');
  expect(unknown?.at(-1)).toContain('unknown city Bergen');
  expect(fact).toHaveLength(2);
});

it('extraction.js makes objects of texts, with null for what they do not say', async () => {
  const lines = (await blocks('extraction.js')).flat();
  const rows = lines
    .filter((line) => /^│ \d/.test(line))
    .map((line) => line.split('│').map((cell) => cell.trim()));
  expect(rows.map((row) => row.slice(2, -1))).toEqual([
    ["'lamp'", '12', '40', "'Ida Berg'", 'null'],
    ["'chair'", '3', '89.5', "'Tom Novak'", 'null'],
    ["'kettle'", '2', '25', "'Mia Rossi'", 'null'],
  ]);
  expect(lines.at(-1)).toBe('3 orders, 798.50 in total');
});

it('retrieval.js finds the line that a question belongs to, with the nearest first', async () => {
  const found = await blocks('retrieval.js');
  expect(found.map(([, best]) => best?.replace(/^ {2}0\.\d\d (\w+).*/, '$1'))).toEqual([
    'addition',
    'stories',
    'facts',
    'lists',
  ]);
  for (const [, ...ranked] of found) {
    const scores = ranked.map((line) => Number(line.slice(2, 6)));
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
  }
});
