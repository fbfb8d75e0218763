import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CustomInput, customArguments } from './custom-input.ts';

/** As JSON may be written: spaces, and every character escaped or not. */
const escaped = (text: string) =>
  [...text].map((one) =>
    one.length === 1 && one.charCodeAt(0) % 3 === 0
      ? `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`
      : JSON.stringify(one).slice(1, -1),
  );

it('is the text that was written, wherever the arguments are cut', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.array(fc.nat(40)), fc.boolean(), (text, cuts, plain) => {
      const json = plain ? customArguments(text) : `{ "input" : "${escaped(text).join('')}" }`;
      const input = new CustomInput();
      let read = '';
      let at = 0;
      for (const cut of [...cuts, json.length]) {
        const added = input.push(json.slice(at, at + cut));
        expect(Buffer.from(added).toString()).toBe(added);
        read += added;
        at += cut;
      }
      expect(read).toBe(JSON.parse(json).input);
    }),
  );
});

it('keeps a character whole that two escapes spell', () => {
  const input = new CustomInput();
  expect(input.push('{"input": "a\\ud83d')).toBe('a');
  expect(input.push('\\ude00b"}')).toBe('😀b');
});

it('has what came of it where the arguments are cut off', () => {
  expect(new CustomInput().push('{"input": "ls -l\\n\\')).toBe('ls -l\n');
  expect(new CustomInput().push('{"inp')).toBe('');
});
