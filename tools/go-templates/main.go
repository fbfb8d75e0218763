// Renders templates with Go's text/template for test/golden/go-templates.json: go run main.go ../../test/golden/go-templates.json

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"text/template"
)

type Case struct {
	Template string         `json:"template"`
	Data     map[string]any `json:"data"`
	Text     string         `json:"text"`
}

func main() {
	msgs := []any{
		map[string]any{"Role": "system", "Content": "Be kind."},
		map[string]any{"Role": "user", "Content": "Hi \"you\""},
		map[string]any{"Role": "assistant", "Content": "", "ToolCalls": []any{map[string]any{"Function": map[string]any{"Name": "f", "Arguments": map[string]any{"a": "b"}}}}},
		map[string]any{"Role": "tool", "Content": "7"},
		map[string]any{"Role": "user", "Content": "And?"},
	}
	chat := map[string]any{"System": "Be kind.", "Prompt": "Hello", "Response": "", "Messages": msgs, "Tools": []any{map[string]any{"type": "function"}}, "Think": false}
	plain := map[string]any{"System": "", "Prompt": "Hello", "Response": "", "Messages": []any{}, "Tools": []any{}}
	sources := []string{
		"{{ .Prompt }}",
		"{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}{{ if .Prompt }}<|im_start|>user\n{{ .Prompt }}<|im_end|>\n{{ end }}<|im_start|>assistant\n{{ .Response }}<|im_end|>",
		"{{- if .System }}\n### System:\n{{ .System }}\n{{- end }}\n\n### User:\n{{ .Prompt }}\n\n### Response:\n",
		"{{- range $i, $_ := .Messages }}{{- $last := eq (len (slice $.Messages $i)) 1 -}}[{{ .Role }}{{ if $last }}!{{ end }}] {{ .Content }}\n{{ end }}",
		"{{ range .Messages }}{{ if eq .Role \"system\" }}S:{{ .Content }}{{ else if eq .Role \"user\" }}U:{{ .Content }}{{ else if eq .Role \"assistant\" }}A:{{ .Content }}{{ range .ToolCalls }}<{{ .Function.Name }} {{ json .Function.Arguments }}>{{ end }}{{ else }}T:{{ .Content }}{{ end }}|{{ end }}",
		"{{ if and .Tools (not .Think) }}tools {{ json .Tools }}{{ else }}none{{ end }}",
		"{{ with .System }}sys={{ . }}{{ else }}no system{{ end }} {{ or .System \"default\" }} {{ and .System .Prompt }}",
		"{{/* a comment */}}a {{- /* trims */ -}} b {{ \"quo\\\"ted\" }} {{ `raw {{` }} {{ 3 }} {{ true }}",
		"{{ range .Tools }}x{{ else }}empty{{ end }} {{ len .Messages }} {{ (index .Messages 0).Role }}",
		"{{ $x := \"a\" }}{{ if true }}{{ $y := \"b\" }}{{ $x }}{{ $y }}{{ end }}{{ .Prompt | print }}",
		"{{ if or (eq .Prompt \"x\" \"Hello\") (gt (len .Messages) 9) }}yes{{ end }} {{ ne .Prompt \"x\" }} {{ ge 2 2 }} {{ lt 3 2 }} {{ slice .Prompt 1 3 }}",
		"{{ $last := -1 }}{{ range $i, $m := .Messages }}{{ if eq $m.Role \"user\" }}{{ $last = $i }}{{ end }}{{ end }}{{ $last }}",
		"{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x = 3 }}{{ $x }}{{ end }}{{ $x }}{{ with $x = 4 }}{{ . }}{{ end }}{{ $x }}",
		"{{ $m := \"\" }}{{ range $m = .Messages }}{{ $n := $m.Role }}{{ $n }}{{ else }}none{{ end }} {{ len $m }}",
		"{{ if $x := .System }}{{ $x }}{{ else if $y := .Prompt }}{{ $x }}{{ $y }}{{ end }}{{ range $i, $t := .Tools }}{{ $i }}{{ else }}{{ len $t }}{{ end }}",
	}
	funcs := template.FuncMap{"json": func(v any) string { b, _ := json.Marshal(v); return string(b) }}
	var cases []Case
	for _, s := range sources {
		for _, d := range []map[string]any{chat, plain} {
			t, err := template.New("").Funcs(funcs).Option("missingkey=zero").Parse(s)
			if err != nil {
				fmt.Fprintln(os.Stderr, s, err)
				continue
			}
			var b bytes.Buffer
			if err := t.Execute(&b, d); err != nil {
				fmt.Fprintln(os.Stderr, s, err)
				continue
			}
			cases = append(cases, Case{s, d, b.String()})
		}
	}
	out, _ := json.MarshalIndent(cases, "", " ")
	os.WriteFile(os.Args[1], append(out, '\n'), 0644)
}
