import { describe, expect, it } from 'vitest';
import {
  byteLevel,
  byteLevelGguf,
  completed,
  families,
  ggufMetadata,
  sentencePiece,
  sentencePieceGguf,
  sentencePieceJson,
  texts,
} from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { openLocalModel } from '../pool/local-model.ts';
import type { JsonObject } from '../weights/json-file.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import { finish, partsOf } from './steps.ts';
import type { Tokenizer } from './tokenizer.ts';
import { jsonTokenizer } from './tokenizer-json/tokenizer-json.ts';

const json = (tokenizer: JsonObject) => jsonTokenizer({ path: 'tokenizer.json', tokenizer });
const spmVocab = Object.fromEntries(sentencePiece.tokens.map((token, id) => [token, id]));
const sentencePieceStyles = Object.entries(sentencePieceJson.styles).map(
  ([name, { tokenizer }]) =>
    [
      `SentencePiece JSON, ${name}`,
      json(completed(tokenizer, { vocab: spmVocab, merges: sentencePieceJson.merges })),
    ] as const,
);
const byteLevelJson = (more: JsonObject = {}) =>
  json({
    model: { type: 'BPE', ...byteLevel },
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
    decoder: { type: 'ByteLevel' },
    ...more,
  });

/** A server trusts the bound before it encodes anything. */
const bounded: readonly (readonly [string, Tokenizer])[] = [
  ['byte-level GGUF', ggufTokenizer(ggufMetadata(byteLevelGguf('gpt-2', ['<|im_end|>'])))],
  ['SentencePiece GGUF', ggufTokenizer(ggufMetadata(sentencePieceGguf()))],
  ['the embedded model', openLocalModel(embeddedModelPath).tokenizer],
  ['byte-level JSON', byteLevelJson()],
  ['byte-level JSON with composition', byteLevelJson({ normalizer: { type: 'NFC' } })],
  ['byte-level JSON with compatibility', byteLevelJson({ normalizer: { type: 'NFKC' } })],
  ...Object.entries(families)
    .slice(0, 4)
    .map(([name, { preTokenizer }]) => [name, byteLevelJson({ pre_tokenizer: preTokenizer })] as const),
  ...sentencePieceStyles,
];

describe.each(bounded)('the longest token of %s', (_, tokenizer) => {
  const spelled = Array.from({ length: tokenizer.vocabSize }, (_, id) => tokenizer.tokenText(id) ?? '');
  const longest = spelled.reduce((one, other) => (other.length > one.length ? other : one), '');
  const dense = [
    ...texts,
    longest.repeat(50),
    longest.replaceAll('▁', ' ').replaceAll('Ġ', ' ').repeat(50),
    ' '.repeat(1000),
    '\n'.repeat(1000),
    // Four characters that compose to one, and letters of two units that become one.
    '\u03b1\u0313\u0300\u0345'.repeat(200),
    '\u{1d6c2}\u0313\u0300\u0345'.repeat(200),
    '\u1100\u1161\u11a8'.repeat(200),
    '\u{1f3bf}'.repeat(300),
    '\ud83c'.repeat(300),
  ];

  it('no token stands for more', () => {
    expect(tokenizer.longestToken).toBeLessThan(4096);
    for (const special of [false, true]) {
      for (const text of dense) {
        const fewest = text.length / tokenizer.longestToken;
        expect(tokenizer.encode(text, { special }).length, text.slice(0, 40)).toBeGreaterThanOrEqual(fewest);
      }
    }
  });
});

describe('there is no longest token', () => {
  const unknown = { type: 'BPE', vocab: { a: 0, '?': 1 }, merges: [], unk_token: '?', fuse_unk: true };

  it.each<[string, JsonObject]>([
    ['unknown characters fuse', { model: unknown }],
    ['characters without a token are dropped', { model: { type: 'BPE', vocab: { a: 0 }, merges: [] } }],
    ['spaces are removed', { ...byteLevelModel(), pre_tokenizer: { type: 'WhitespaceSplit' } }],
    ['a text is stripped', { ...byteLevelModel(), normalizer: { type: 'Strip', strip_left: true } }],
    [
      'an expression is replaced',
      {
        ...byteLevelModel(),
        normalizer: { type: 'Replace', pattern: { Regex: ' +' }, content: ' ' },
      },
    ],
    ['a token swallows the spaces around it', swallowing()],
  ])('where %s', (_, tokenizer) => {
    expect(json(tokenizer).longestToken).toBe(Number.POSITIVE_INFINITY);
  });
});

function byteLevelModel(): JsonObject {
  return {
    model: { type: 'BPE', ...byteLevel },
    pre_tokenizer: { type: 'ByteLevel' },
    decoder: { type: 'ByteLevel' },
  };
}

function swallowing(): JsonObject {
  const added_tokens = [{ id: 9999, content: '<mask>', special: true, lstrip: true }];
  return { ...byteLevelModel(), added_tokens };
}

const words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'fox', 'a', '##a', '##b', 'the', ',', '!'];

const tokenizers: readonly (readonly [string, Tokenizer])[] = [
  ['SentencePiece GGUF', ggufTokenizer(ggufMetadata(sentencePieceGguf()))],
  ...['gpt-2', 'deepseek-v3'].map(
    (name) => [`${name} GGUF`, ggufTokenizer(ggufMetadata(byteLevelGguf(name)))] as const,
  ),
  ...Object.entries(families)
    .slice(0, 1)
    .map(([name, { preTokenizer }]) => {
      const rules = { model: { type: 'BPE', ...byteLevel }, pre_tokenizer: preTokenizer };
      return [`${name} JSON`, json({ ...rules, decoder: { type: 'ByteLevel' } })] as const;
    }),
  ...sentencePieceStyles,
  [
    'WordPiece JSON',
    json({
      model: {
        type: 'WordPiece',
        vocab: Object.fromEntries(words.map((word, id) => [word, id])),
        unk_token: '[UNK]',
        continuing_subword_prefix: '##',
        max_input_chars_per_word: 100,
      },
      normalizer: { type: 'BertNormalizer', lowercase: true },
      pre_tokenizer: { type: 'BertPreTokenizer' },
      decoder: { type: 'WordPiece', prefix: '##' },
    }),
  ],
];

/** Matchers take a second for texts as long as these. */
const isSame = (a: Int32Array | undefined, b: Int32Array) =>
  a !== undefined &&
  Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));

const prose = 'Once upon a time, the fox\'s 1234 friends said: "hello!"\n\n  <b>été</b> 中文 😀 ';
/** Long as texts, some as one piece, too. */
const hostile: readonly string[] = [
  prose.repeat(1000),
  'a'.repeat(70_000),
  'ab'.repeat(35_000),
  '😀'.repeat(35_000),
  ' '.repeat(70_000),
  ` ${'!?'.repeat(10_000)}\n${'7'.repeat(50_000)}`,
  `${'x'.repeat(8191)}😀${'中'.repeat(20_000)} ${'\u0301'.repeat(40_000)}`,
];

describe.each(tokenizers)('%s', (_, tokenizer) => {
  it('encodes long texts in turn as it does alone', () => {
    const running = hostile.map((text) => ({
      steps: tokenizer.encodeInSteps(text),
      ids: new Int32Array() as Int32Array,
    }));
    let turns = 0;
    for (let left = running; left.length > 0; turns++) {
      left = left.filter((one) => {
        const { done, value } = one.steps.next();
        if (done === true) one.ids = value;
        return done !== true;
      });
    }
    expect(turns).toBeGreaterThan(3);
    for (const [at, text] of hostile.entries()) {
      expect(isSame(running[at]?.ids, finish(tokenizer.encodeInSteps(text)))).toBe(true);
    }
  });

  it('gives a long text the ids of its lines', () => {
    // Lines begin and end so that nothing merges over their ends.
    const line = `${prose.trim()}\n`;
    const [one, two] = [1, 2].map((count) => tokenizer.encode(line.repeat(count))) as [
      Int32Array,
      Int32Array,
    ];
    const period = two.length - one.length;
    const count = 1200;
    const many = tokenizer.encode(line.repeat(count));
    expect(many.length).toBe(one.length + (count - 1) * period);
    expect(isSame(many.subarray(0, two.length - 1), two.subarray(0, two.length - 1))).toBe(true);
    const last = many.length - 1;
    expect(isSame(many.subarray(one.length, last), many.subarray(one.length - period, last - period))).toBe(
      true,
    );
  });
});

it('parts of a text never divide a character', () => {
  for (const text of ['', 'a', `a${'😀'.repeat(20_000)}`, '😀'.repeat(20_000)]) {
    const parts = [...partsOf(text)];
    expect(parts.join('')).toBe(text);
    for (const part of parts) expect(/\p{Surrogate}/u.test(part)).toBe(false);
  }
});
