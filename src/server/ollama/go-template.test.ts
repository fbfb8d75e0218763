import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { goTemplate, TemplateError } from './go-template.ts';
import { templatedPrompt } from './prompt-template.ts';

interface Golden {
  readonly template: string;
  readonly data: Record<string, unknown>;
  readonly text: string;
}

/** Rendered by Go's text/template, with Ollama's function json (tools/go-templates). */
const goldens = JSON.parse(
  readFileSync(new URL('../../../test/golden/go-templates.json', import.meta.url), 'utf8'),
) as Golden[];

describe('a template', () => {
  it.each(goldens.map(({ template, data, text }) => [template, data, text] as const))(
    'is rendered as Go renders it: %j',
    (template, data, text) => {
      expect(goTemplate(template)(data)).toBe(text);
    },
  );

  it.each([
    ['{{ if .A }}', /no end/],
    ['{{ end }}', /without a beginning/],
    ['{{ .A', /not closed/],
    ['{{ nothing .A }}', /no function nothing/],
    ['{{ $x }}', /no variable \$x/],
    ['{{ template "a" }}', /not supported/],
    ['{{ (.A }}', /parenthesis/],
    ['{{ }}', /empty/],
    ['{{ .A ~ }}', /cannot be read/],
    ['{{ $x = 1 }}', /no variable \$x/],
    ['{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}', /no variable \$x/],
    ['{{ .A = 1 }}', /only variables/],
    ['{{ $i, $x := .A }}', /only a range/],
    ['{{ slice .A 1 }}', /slice takes a text or a list/],
    ['{{ slice 12 1 }}', /slice takes a text or a list/],
    ['{{ slice "ab" "x" }}', /slice takes whole numbers/],
    ['{{ lt .A 1 }}', /can be compared/],
  ])('is refused where it is none: %s', (source, problem) => {
    expect(() => goTemplate(source)({})).toThrow(TemplateError);
    expect(() => goTemplate(source)({})).toThrow(problem);
  });

  it('cannot hold up the server', () => {
    const messages = Array.from({ length: 2000 }, () => ({ role: 'user', content: 'x'.repeat(1000) }));
    const nested = `${'{{ range $.Messages }}'.repeat(5)}a${'{{ end }}'.repeat(5)}`;
    expect(() => templatedPrompt(nested, messages)).toThrow(/^template: takes too long/);
    const long = '{{ range .Messages }}{{ range $.Messages }}{{ .Content }}{{ end }}{{ end }}';
    expect(() => templatedPrompt(long, messages)).toThrow(/^template: makes a prompt that is too long/);
    expect(() => templatedPrompt('{{'.repeat(8192), messages)).toThrow(/^template: an action is not closed/);
    expect(() => templatedPrompt(`{{ ${'('.repeat(8000)} }}`, messages)).toThrow(/^template: /);
    expect(() => templatedPrompt('x'.repeat(20_000), messages)).toThrow(/^template: is longer than/);
  });

  it.each([
    ['a variable doubled', `{{ $x := .Prompt }}${'{{ $x = print $x $x }}'.repeat(700)}`],
    ['a variable as an operand', `{{ $x := .Prompt }}{{ $x = print ${'$x '.repeat(5000)} }}`],
    ['conditions', '{{ if json . }}{{ end }}'.repeat(600)],
    ['lists printed', `{{ if print ${'.Prompt '.repeat(2000)} }}{{ end }}`],
    ['an empty body', '{{ range .List }}{{ range $.List }}{{ end }}{{ end }}'],
    ['slices', '{{ range .List }}{{ if slice $.List 1 }}{{ end }}{{ end }}'],
    ['lengths', '{{ range .List }}{{ if len $.Prompt }}{{ end }}{{ end }}'],
    ['comparisons', '{{ range .List }}{{ if eq $.Prompt $.Same }}{{ end }}{{ end }}'],
    ['operands', `{{ range .List }}{{ if and ${'1 '.repeat(5000)} }}{{ end }}{{ end }}`],
    ['fields', `{{ range .List }}{{ if $${'.A'.repeat(5000)} }}{{ end }}{{ end }}`],
  ])('ends in bounded time and memory, whatever it does with %s', (_, source) => {
    const data = {
      Prompt: 'x'.repeat(100_000),
      Same: 'x'.repeat(100_000),
      List: Array.from({ length: 20_000 }, (_, n) => n),
    };
    const startMs = performance.now();
    expect(() => goTemplate(source)(data)).toThrow(/takes too long|too long/);
    expect(performance.now() - startMs).toBeLessThan(5000);
  });

  it('reads nothing but what it is given', () => {
    expect(goTemplate('{{ .constructor }}{{ .System.length }}')({ System: 'a' })).toBe('');
  });
});

describe('a prompt', () => {
  const messages = [
    { role: 'system', content: 'S' },
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
    { role: 'user', content: 'c' },
  ];

  it('is rendered turn by turn, and ends where the answer begins', () => {
    const template = '{{ if .System }}[{{ .System }}]{{ end }}<{{ .Prompt }}>{{ .Response }};';
    expect(templatedPrompt(template, messages)).toBe('[S]<a>b;<c>');
  });

  it('keeps earlier answers where the template does not place them', () => {
    expect(templatedPrompt('<{{ .Prompt }}>', messages)).toBe('<a>b<c>');
  });

  it("goes on with an assistant's message at the end", () => {
    const begun = [...messages, { role: 'assistant', content: 'd' }];
    expect(templatedPrompt('<{{ .Prompt }}>{{ .Response }};', begun)).toBe('<a>b;<c>d');
    expect(templatedPrompt('<{{ .Prompt }}>', begun)).toBe('<a>b<c>d');
  });

  it('has one budget for all of its turns', () => {
    const turns = Array.from({ length: 40 }, (_, n) => ({
      role: n % 2 === 0 ? 'user' : 'assistant',
      content: 'x'.repeat(100_000),
    }));
    const source = '{{ if print .Prompt .Prompt .Prompt .Prompt .Prompt .Prompt .Prompt .Prompt }}{{ end }}';
    expect(templatedPrompt(source, turns.slice(0, 2))).toBe(turns[1]?.content);
    expect(() => templatedPrompt(source.repeat(2), turns)).toThrow(
      /^template: makes a prompt that is too long/,
    );
  });

  it('is rendered at once where the template knows of messages', () => {
    const template = '{{ range .Messages }}{{ .Role }}={{ .Content }} {{ end }}>{{ .Response }}!';
    expect(templatedPrompt(template, messages)).toBe('system=S user=a assistant=b user=c >');
  });
});
