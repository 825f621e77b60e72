package policies

import (
	"maps"
	"path/filepath"
	"slices"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/oslopolicy"
)

// object is an object in JSON.
type object map[string]any

// helpURI is the page with the codes.
const helpURI = "https://github.com/warrantgate/warrantgate/blob/main/webhooks/keystone/README.md#codes"

// newSARIF returns findings in SARIF 2.1.0 (OASIS). Its levels error, warning and note are our severities.
func newSARIF(findings []oslopolicy.Finding) object {
	codes := map[string]bool{}
	results := []object{}
	for _, f := range findings {
		codes[f.Code] = true
		physical := object{"artifactLocation": object{"uri": filepath.ToSlash(f.File)}}
		if f.Line > 0 { // a region has to begin at line 1 or later
			physical["region"] = object{"startLine": f.Line}
		}
		location := object{"physicalLocation": physical}
		if f.Rule != "" {
			location["logicalLocations"] = []object{{"name": f.Rule}}
		}
		result := object{"ruleId": f.Code, "level": f.Severity, "message": object{"text": f.Details()}, "locations": []object{location}}
		if len(f.Operations) > 0 {
			result["properties"] = object{"operations": f.Operations}
		}
		results = append(results, result)
	}
	rules := []object{}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		rules = append(rules, object{"id": code, "shortDescription": object{"text": oslopolicy.Meanings[code]}, "helpUri": helpURI})
	}
	driver := object{"name": "warrantgate", "version": cli.Version, "rules": rules}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}},
	}
}
