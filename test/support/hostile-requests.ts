// Bodies of chats that ask for grammars nobody means well with. The same number gives the same body.

import { type Random, SchemaMaker } from './random-schemas.ts';

export interface HostileRequest {
  readonly kind: string;
  /** As it is sent: not always JSON. */
  readonly body: string;
  /** What an answer that is complete must be valid against, where that can be checked. */
  readonly schema?: unknown;
}

const cursed = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  '\ud800',
  'é"\\',
  '\u0000',
  '$ref',
];
const keywords = [
  ...['type', 'enum', 'const', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'properties', 'patternProperties'],
  ...['additionalProperties', 'required', 'minProperties', 'items', 'prefixItems', 'minItems', 'uniqueItems'],
  ...[
    'minLength',
    'maxLength',
    'pattern',
    'format',
    'minimum',
    'multipleOf',
    '$ref',
    '$defs',
    '$anchor',
    '$id',
  ],
];
const wrong = [
  null,
  true,
  -1,
  0.5,
  1e308,
  Number.MAX_VALUE,
  '',
  '(',
  [],
  [[]],
  {},
  { a: 1 },
  ['x', 'x'],
  'string',
];

const regexes = [
  '(a+)+$',
  '(a|a)*b',
  '(a|aa)+$',
  '(?:(?:a{1000}){1000}){1000}',
  '[ab]*a[ab]{40}',
  '[ab]*a[ab]{5000}',
  '(.*)(.*)(.*)(.*)(.*)x',
  '(?:){0,1000000000}',
  'a{99999999999999999999}',
  '\\p{L}{3,400}\\p{Script=Greek}',
  '[^\\p{L}\\p{N}\\p{P}\\p{S}\\p{Z}]{2}',
  '((((((((((x?)*)*)*)*)*)*)*)*)*)*',
  '(?=a)b',
  '(a)\\1',
  '\\bword\\b',
  '[z-a]',
  '(',
  '\ud800',
  '\\ud83d',
  '',
  '$^',
  'a$b',
];

const grammars = [
  'root ::= root "a" | "b"',
  'root ::= a\na ::= b\nb ::= a',
  'root ::= ""',
  'root ::= x',
  'root ::= [^]',
  'root ::= []',
  'root ::= "\\uD800"',
  'root ::= "a"{2000}{2000}{2000}',
  'root ::= ("a"? "a"?){500}',
  'root ::= a | b | [a-z ]\na ::= [a-z ] root "x"\nb ::= [a-z ] root "y"',
  'root ::= s s s s\ns ::= [a-z ]* t\nt ::= [a-z ]* s | [a-z ]',
  'root ::= (a | a | a)* "!"\na ::= [a-z ]+ root?',
  'root ::= "a" unreachable2\nunreachable ::= "b"',
  'not a grammar',
  'root ::= (((((',
  '',
  'root ::= "x" # comment',
  `root ::= ${'('.repeat(5000)}"a"${')'.repeat(5000)}`,
  Array.from({ length: 9000 }, (_, at) => `${at === 0 ? 'root' : `r${at}`} ::= r${at + 1}`).join('\n'),
  `root ::= ${Array.from({ length: 400 }, (_, at) => `r${at}`).join(' | ')}\n${Array.from({ length: 400 }, (_, at) => `r${at} ::= [^x]* "${at}"`).join('\n')}`,
];

const nested = (levels: number, wrap: (inner: unknown) => unknown): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => wrap(inner), { type: 'integer' });

/** Text, since no object is that deep without trouble. */
const deepText = (levels: number) => `${'{"items":'.repeat(levels)}true${'}'.repeat(levels)}`;

const schemaMakers: Readonly<Record<string, (random: Random) => unknown>> = {
  'deep objects': (random) =>
    nested(10 + random(400), (a) => ({ type: 'object', properties: { a }, required: ['a'] })),
  'deep anyOf': (random) => nested(10 + random(400), (one) => ({ anyOf: [one, { type: 'null' }] })),
  'wide anyOf of allOf': () => ({
    allOf: Array.from({ length: 30 }, () => ({ anyOf: [{}, { minimum: 1 }] })),
  }),
  'nothing behind many alternatives': () => ({
    allOf: [...Array.from({ length: 26 }, () => ({ anyOf: [{}, { minimum: 1 }] })), false],
  }),
  'a circle': () => ({
    $ref: '#/$defs/a',
    $defs: { a: { $ref: '#/$defs/b' }, b: { anyOf: [{ $ref: '#/$defs/a' }] } },
  }),
  'a tree': () => ({
    type: 'object',
    properties: { left: { $ref: '#' }, right: { $ref: '#' }, value: { type: 'integer' } },
    required: ['value'],
    additionalProperties: false,
  }),
  'no end': () => ({ type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }),
  'a huge enum': (random) => ({
    enum: Array.from({ length: 20_000 }, (_, at) => `word ${at * (1 + random(9))}`),
  }),
  'a huge enum of objects': () => ({
    enum: Array.from({ length: 3000 }, (_, at) => ({ at, text: `${at}` })),
  }),
  'huge lengths': (random) => ({
    type: 'string',
    minLength: 10 ** random(9),
    maxLength: 10 ** (8 + random(9)),
  }),
  'huge lengths and a pattern': () => ({
    type: 'string',
    pattern: '^[a-z]+$',
    minLength: 19_000,
    maxLength: 19_990,
  }),
  'huge ranges': (random) => ({ type: 'number', minimum: -(10 ** random(308)), maximum: 10 ** random(308) }),
  'huge lists': (random) => ({ type: 'array', minItems: 10 ** random(6), items: { type: 'integer' } }),
  'many properties': (random) => ({
    type: 'object',
    properties: Object.fromEntries(
      Array.from({ length: 200 + random(2000) }, (_, at) => [`p${at}`, { type: 'string' }]),
    ),
    maxProperties: random(300),
  }),
  'many patterns': () => ({
    patternProperties: Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`${at}`, { minimum: at }])),
  }),
  'many oneOf': (random) => ({
    oneOf: Array.from({ length: 100 + random(200) }, (_, at) => ({
      properties: { a: { const: at } },
      required: ['a'],
      type: 'object',
    })),
  }),
  'a cursed name': (random) => {
    const name = cursed[random(cursed.length)] as string;
    const properties = Object.fromEntries([[name, { type: 'integer' }]]);
    return { type: 'object', properties, required: [name], $defs: properties, additionalProperties: false };
  },
  'a cursed pattern': (random) => ({ type: 'string', pattern: regexes[random(regexes.length)] }),
  'wrong values': (random) =>
    Object.fromEntries(
      Array.from({ length: 1 + random(4) }, () => [
        keywords[random(keywords.length)],
        wrong[random(wrong.length)],
      ]),
    ),
  'an ordinary one': (random) => new SchemaMaker(random).schema(3),
};

const makers: Readonly<Record<string, (random: Random) => HostileRequest>> = {
  regex: (random) => chat('regex', { guided_regex: regexes[random(regexes.length)] }),
  'a regex that grows': (random) =>
    chat('a regex that grows', { guided_regex: `(${'[ab]?'.repeat(1 + random(300))}){${1 + random(60)}}c` }),
  grammar: (random) => chat('grammar', { guided_grammar: grammars[random(grammars.length)] }),
  choice: (random) =>
    chat('choice', {
      guided_choice: [
        ...cursed.slice(0, random(5)),
        ...Array.from({ length: random(3000) }, (_, at) => `option ${at}`),
      ],
      min_tokens: random(3),
    }),
  'text of a schema': (random) => {
    const text = JSON.stringify(schemaMakers['a cursed name']?.(random));
    return chat('text of a schema', { guided_json: text.slice(0, text.length - random(2)) });
  },
  'a very deep schema': (random) => ({
    kind: 'a very deep schema',
    body: `{"messages": [{"role": "user", "content": "x"}], "max_tokens": 8, "json_schema": ${deepText(10 ** (2 + random(4)))}}`,
  }),
  'a very deep tool': (random) => ({
    kind: 'a very deep tool',
    body: `{"messages": [{"role": "user", "content": "x"}], "max_tokens": 8, "tools": [{"type": "function", "function": {"name": "f", "parameters": ${deepText(10 ** (2 + random(4)))}}}]}`,
  }),
  'almost JSON': (random) => {
    const { body } = chat('', { json_schema: schemaMakers['an ordinary one']?.(random) });
    const at = random(body.length);
    return {
      kind: 'almost JSON',
      body: body.slice(0, at) + ['', '"', '}', ',', '\\', '\u0000'][random(6)] + body.slice(at + 1),
    };
  },
  tools: (random) => {
    const names = Object.keys(schemaMakers);
    const tools = Array.from({ length: 1 + random(3) }, (_, at) => ({
      type: 'function',
      function: {
        name: ['f', 'toString', '__proto__'][at],
        parameters: schemaMakers[names[random(names.length)] as string]?.(random),
        strict: random(2) === 0,
      },
    }));
    return chat('tools', { tools, tool_choice: random(2) === 0 ? 'required' : 'auto' });
  },
  contradictions: (random) => {
    const { body } = chat('', { guided_regex: 'a', json_schema: {}, grammar: grammars[random(5)] });
    return { kind: 'contradictions', body };
  },
  ...Object.fromEntries(
    Object.entries(schemaMakers).map(([kind, make]) => [
      kind,
      (random: Random) => {
        const schema = make(random);
        return {
          ...chat(kind, { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }),
          schema,
        };
      },
    ]),
  ),
};

function chat(kind: string, fields: object): HostileRequest {
  const messages = [{ role: 'user', content: 'Tell me a story.' }];
  return { kind, body: JSON.stringify({ messages, max_tokens: 24, temperature: 1, seed: 1, ...fields }) };
}

export function hostileRequest(random: Random): HostileRequest {
  const kinds = Object.keys(makers);
  return (makers[kinds[random(kinds.length)] as string] as (random: Random) => HostileRequest)(random);
}
