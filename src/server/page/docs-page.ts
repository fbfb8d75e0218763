// A page to read /openapi.json: one file, nothing from elsewhere.

const style = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
  details { border: 1px solid #8884; border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
  summary { cursor: pointer; }
  code, .method { font-family: ui-monospace, monospace; }
  .method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
  table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
  td, th { border-top: 1px solid #8884; padding: .25rem .5rem; text-align: left; vertical-align: top; }
  .quiet { opacity: .7; }
`;

const script = `
  const make = (name, text, ...children) => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    element.append(...children);
    return element;
  };
  const typeOf = (schema) => {
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
    const variants = schema.anyOf || schema.oneOf;
    if (variants) return variants.map(typeOf).join(' | ');
    if (schema.type === 'array') return 'list of ' + typeOf(schema.items || {});
    return schema.type || 'anything';
  };
  const rangeOf = ({ minimum, maximum, exclusiveMinimum }) => {
    const safe = (value) => value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;
    const parts = [];
    if (safe(minimum)) parts.push('from ' + minimum);
    if (safe(exclusiveMinimum)) parts.push('above ' + exclusiveMinimum);
    if (safe(maximum)) parts.push('to ' + maximum);
    return parts.length ? ' (' + parts.join(' ') + ')' : '';
  };
  const fields = (schema, prefix = '') => {
    const item = schema.type === 'array' ? schema.items : schema;
    return Object.entries((item && item.properties) || {}).flatMap(([name, field]) => {
      const path = prefix + name + (field.type === 'array' ? '[]' : '');
      const needed = (item.required || []).includes(name) ? ' *' : '';
      const about = [field.description, rangeOf(field)].filter(Boolean).join('');
      const row = make('tr', '', make('td', '', make('code', path + needed)), make('td', typeOf(field)), make('td', about));
      return [row, ...fields(field, path + '.')];
    });
  };
  const table = (title, schema) => {
    const rows = fields(schema);
    return rows.length ? [make('h4', title), make('table', '', make('tbody', '', ...rows))] : [];
  };
  const operation = (path, method, about) => {
    const title = make('summary', '', make('span', method.toUpperCase()), make('code', path), ' ' + about.summary);
    title.firstChild.className = 'method';
    const body = about.requestBody && about.requestBody.content['application/json'].schema;
    const answer = about.responses['200'].content && about.responses['200'].content['application/json'];
    return make('details', '', title,
      ...(about.description ? [make('p', about.description)] : []),
      ...(about.security ? [] : [make('p', 'Needs no key.')]),
      ...(body ? table('Request', body) : []),
      ...(answer ? table('Answer', answer.schema) : []));
  };
  fetch('openapi.json').then((response) => response.json()).then((document_) => {
    const main = document.querySelector('main');
    main.replaceChildren(make('h1', document_.info.title + ' ' + document_.info.version), make('p', document_.info.description));
    for (const [path, methods] of Object.entries(document_.paths)) {
      for (const [method, about] of Object.entries(methods)) main.append(operation(path, method, about));
    }
  });
`;

export const docsPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Chairlift API</title>
<style>${style}</style>
</head>
<body>
<main><p class="quiet">Reading <a href="openapi.json">openapi.json</a>…</p></main>
<script>${script}</script>
</body>
</html>
`;
