// Figures side by side, each with its name and what it means.

export type Figure = readonly [name: string, value: string, about: string];

export function FigureList({ figures }: { readonly figures: readonly Figure[] }) {
  return (
    <dl class="figures">
      {figures.map(([name, value, about]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <span class="figure-value">{value}</span> <span class="quiet">{about}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
