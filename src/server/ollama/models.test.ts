import { describe, expect, it } from 'vitest';
import type { ServedModel } from '../../pool/served-model.ts';
import { chatTemplate } from '../../text/chat-template.ts';
import { capabilitiesOf } from './models.ts';

type Capable = Parameters<typeof capabilitiesOf>[0];

const model = (given: Partial<Capable>): Capable => ({
  spec: {} as ServedModel['spec'],
  template: undefined,
  pooling: { possible: true, pooling: 'last', declared: false },
  ...given,
});
const declared = { possible: true, pooling: 'mean', declared: true } as const;
const fillInMiddle = { endIds: [] } as unknown as ServedModel['fillInMiddle'];

describe('what a model can do', () => {
  it.each<[string, Partial<Capable>, string[]]>([
    ['continues texts', {}, ['completion']],
    [
      'calls tools and thinks, by its template',
      { template: chatTemplate({ template: '{{ tools }}<think>', specialTokens: {} }) },
      ['completion', 'tools', 'thinking'],
    ],
    ['fills gaps, by its tokens', { fillInMiddle }, ['completion', 'insert']],
    ['embeds, where its files say how', { pooling: declared }, ['completion', 'embedding']],
    [
      'does nothing else without a head',
      { pooling: declared, spec: { headless: true } as ServedModel['spec'] },
      ['embedding'],
    ],
    ['does not embed where it cannot', { pooling: { possible: false, problem: 'x' } }, ['completion']],
  ])('%s', (_promise, given, expected) => {
    expect(capabilitiesOf(model(given))).toEqual(expected);
  });
});
