// What Python's jinja2 3.1 renders, with lstrip_blocks and trim_blocks as transformers has them.

import { describe, expect, it } from 'vitest';
import { chatTemplate } from './chat-template.ts';

function render(template: string, variables: Record<string, unknown> = {}): string {
  const { render } = chatTemplate({ template, specialTokens: {} });
  return render({ messages: [], addGenerationPrompt: false, variables: { nothing: null, ...variables } });
}

const budgets = '{% set steps = {1024: 256, 0: 1, 512: 128} %}';

describe('a template means what it means in Python', () => {
  it.each([
    ["{{ nothing | selectattr('type', 'equalto', 'x') | list | length > 0 }}", 'False'],
    ["{{ missing | rejectattr('type') | list | length }}", '0'],
    ["{{ nothing | map(attribute='name') | join(',') }}", ''],
    ['[{{ missing | trim }}{{ missing | join }}{{ missing | list | length }}]', '[0]'],
    ['{{ nothing | string }} {{ nothing | trim }}', 'None None'],
    ['{{ missing | length }}', '0'],
    ["{{ items | selectattr('a', 'equalto', 'x') | map(attribute='a') | join }}", 'x'],
  ])('with filters on nothing: %s', (template, expected) => {
    const shown = render(template, { items: [{ a: 'x' }, { a: 'y' }] });
    // The library writes booleans as JavaScript does.
    expect(shown.replace('false', 'False')).toBe(expected);
  });

  it.each([
    [`${budgets}{{ steps[512] }} {{ steps[1024] }}`, '128 256'],
    [`${budgets}{% set n = 512 %}{{ steps[n] }}{{ steps[7] is defined }}`, '128False'],
    [`${budgets}{% for k, v in steps | dictsort %}{{ k + 1 }}:{{ v }} {% endfor %}`, '1:1 513:128 1025:256 '],
    [`${budgets}{% for k, v in steps.items() %}{{ k + v }} {% endfor %}`, '1280 1 640 '],
    [`${budgets}{% for k, v in steps | items %}{{ k }} {% endfor %}`, '1024 0 512 '],
    [`${budgets}{% for k in steps %}{% if k >= 512 %}{{ k }} {% endif %}{% endfor %}`, '1024 512 '],
    [`${budgets}{{ steps.get(0) }} {{ steps.get(9, 'none') }}`, '1 none'],
    [`${budgets}{{ 512 in steps }} {{ 513 in steps }} {{ 7 not in steps }}`, 'True False True'],
    [`${budgets}{{ steps | length }} {{ steps | tojson }}`, '3 {"1024": 256, "0": 1, "512": 128}'],
    ["{% set mixed = {1: 'a', 'b': 2} %}{{ mixed[1] }}{{ mixed.b }}{{ mixed['b'] }}", 'a22'],
  ])('with numbers for keys: %s', (template, expected) => {
    expect(render(template).replace(/true|false/g, (word) => word[0]?.toUpperCase() + word.slice(1))).toBe(
      expected,
    );
  });

  it.each([
    ["{% for a, b in [('x', 1), ('y', 2)] %}{{ a }}{{ b }} {% endfor %}", 'x1 y2 '],
    ["{% for a, b in (['x', 1], ('y', 2)) %}{{ a }}{{ b }} {% endfor %}", 'x1 y2 '],
    ["{% set a, b = ('x', 'y') %}{{ b }}{{ a }}", 'yx'],
    ["{{ 'x' in ('x', 'y') }} {{ ('x', 'y') | length }} {{ ('x', 'y') | join('-') }}", 'true 2 x-y'],
    ["{{ ('x', 1) | tojson }}", '["x", 1]'],
    ["{% for a, b in [('x', 1)] %}{{ loop.last }}{% endfor %}", 'true'],
  ])('with tuples: %s', (template, expected) => {
    expect(render(template).replace(/True|False/g, (word) => word.toLowerCase())).toBe(expected);
  });

  it.each([
    ["{{ '<think{}>'.format(':x') }}", '<think:x>'],
    ["{{ '{} and {}'.format('a', 2) }}", 'a and 2'],
    ["{{ '{1}{0}{1}'.format('a', 'b') }}", 'bab'],
    ["{{ '{name}: {}'.format('a', name='b') }}", 'b: a'],
    ["{{ '{{{}}}'.format(nothing) }}", '{None}'],
    ["{{ '{}'.format(true) }}", 'True'],
  ])('with str.format: %s', (template, expected) => {
    expect(render(template)).toBe(expected);
  });

  it.each([
    "{{ '{}{}'.format(1) }}",
    "{{ '{:>4}'.format(1) }}",
    "{{ '{'.format(1) }}",
    "{{ '{a}'.format(1) }}",
  ])('and refuses what it cannot format: %s', (template) => {
    expect(() => render(template)).toThrow(/format: /);
  });

  it('and still has no way to JavaScript', () => {
    const paths = ["'{}'.format", '{1: 2}', '{1: 2}.keys', '{1: 2}.items()', "''"];
    for (const path of paths) {
      expect(() => render(`{{ ${path}.constructor.constructor('return process')() }}`)).toThrow();
    }
    expect(() => render("{{ '{0.__class__}'.format('a') }}")).toThrow(/format: /);
  });
});
