// What is installed with the package runs on every version of Node that it promises: npm warns of the rest at each installation.

import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

interface Locked {
  readonly engines?: { readonly node?: string };
  readonly dev?: boolean;
  readonly optional?: boolean;
}

const { packages } = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')) as {
  packages: Readonly<Record<string, Locked>>;
};

/** The first of each line that is supported for long; and those that a checkout is worked on with. */
const promised = ['20.9.0', '22.11.0', '24.11.0'];
const late = ['20.19.0', '22.20.0', '24.12.0'];

type Version = readonly [major: number, minor: number, patch: number];

const parsed = (text: string): Version => {
  const [major = 0, minor = 0, patch = 0] = text.split('.').map((part) => Number(part) || 0);
  return [major, minor, patch];
};

const isBefore = (a: Version, b: Version) => {
  const at = a.findIndex((part, index) => part !== b[index]);
  return at >= 0 && (a[at] as number) < (b[at] as number);
};

/** As npm reads them, as far as packages write them: `>=18`, `^20.19 || >=22`, `>= 10 < 30`, `20`, `*`. */
function satisfies(version: string, range: string): boolean {
  const own = parsed(version);
  return range.split('||').some((one) =>
    [...one.matchAll(/([<>=^~]*)\s*v?(\d[\w.-]*|\*)/g)].every(([, operator = '', text = '']) => {
      const bound = parsed(text);
      if (text === '*') return true;
      if (operator === '>=') return !isBefore(own, bound);
      if (operator === '>') return isBefore(bound, own);
      if (operator === '<') return isBefore(own, bound);
      if (operator === '<=') return !isBefore(bound, own);
      return own[0] === bound[0] && !isBefore(own, bound) && (operator !== '~' || own[1] === bound[1]);
    }),
  );
}

it('reads ranges as npm does', () => {
  expect(satisfies('20.20.2', '>=22')).toBe(false);
  expect(satisfies('22.11.0', '^20.19.0 || >=22.12.0')).toBe(false);
  expect(satisfies('20.19.0', '^20.19.0 || >=22.12.0')).toBe(true);
  expect(satisfies('24.11.0', '>= 10 < 30')).toBe(true);
});

const unfit = (version: string, isMeant: (locked: Locked) => boolean) =>
  Object.entries(packages)
    .filter(([, locked]) => !locked.optional && isMeant(locked))
    .filter(([, { engines }]) => engines?.node !== undefined && !satisfies(version, engines.node))
    .map(([name, { engines }]) => `${name} wants ${engines?.node}`);

it.each(promised)('the package can be installed on Node %s', (version) => {
  expect(unfit(version, ({ dev }) => dev !== true)).toEqual([]);
});

it.each(late)('a checkout can be set up with Node %s', (version) => {
  expect(unfit(version, () => true)).toEqual([]);
});
