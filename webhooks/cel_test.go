package webhooks_test

import (
	"testing"

	"github.com/google/cel-go/cel"

	"warrantgate.dev/webhooks"
)

func TestFieldsAreReadWithoutEvaluationErrors(t *testing.T) {
	at := func(value any) map[string]any { return map[string]any{"a": map[string]any{"b.c/d": value}} }
	for name, tc := range map[string]struct {
		old, new any
		want     bool
	}{
		"set":                        {old: nil, new: at("x"), want: true},
		"set where there was null":   {old: at(nil), new: at("x"), want: true},
		"set where there was no map": {old: map[string]any{"a": "b.c/d"}, new: at("x"), want: true},
		"another value":              {old: at("x"), new: at("y"), want: true},
		"another type":               {old: at("x"), new: at(int64(5)), want: true},
		"the same value":             {old: at("x"), new: at("x")},
		"the same odd value":         {old: at([]any{"x"}), new: at([]any{"x"})},
		"cleared":                    {old: at("x"), new: at("")},
		"cleared as null":            {old: at("x"), new: at(nil)},
		"removed":                    {old: at("x"), new: map[string]any{"a": map[string]any{}}},
		"removed with its parent":    {old: at("x"), new: map[string]any{"a": nil}},
		"no objects":                 {old: nil, new: nil},
		"odd objects":                {old: "a", new: int64(5)},
	} {
		t.Run(name, func(t *testing.T) {
			environment, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
			if err != nil {
				t.Fatal(err)
			}
			ast, issues := environment.Compile(webhooks.CELSet("a", "b.c/d"))
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			program, err := environment.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := program.Eval(map[string]any{"object": tc.new, "oldObject": tc.old})
			if err != nil {
				t.Fatal(err)
			}
			if got.Value() != tc.want {
				t.Errorf("set anew = %v, want %t", got.Value(), tc.want)
			}
		})
	}
}
