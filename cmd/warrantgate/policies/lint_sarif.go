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

// meanings are the meanings of the codes.
var meanings = map[string]string{
	oslopolicy.CodeFile:                "oslo.policy cannot load the file",
	oslopolicy.CodeNoRules:             "The files have no rules",
	oslopolicy.CodeNameNotText:         "YAML does not read the name of the rule as a text",
	oslopolicy.CodeNonASCII:            "A letter that is not ASCII may look like another",
	oslopolicy.CodeAlwaysAllows:        "The rule allows everybody, but is not @",
	oslopolicy.CodeNeverAllows:         "The rule denies everybody, but is not !",
	oslopolicy.CodeOpenDefault:         "The rule default, which replaces missing rules, allows",
	oslopolicy.CodeSyntax:              "oslo.policy cannot parse the rule, and denies",
	oslopolicy.CodeRaises:              "The rule raises an exception, so that requests fail",
	oslopolicy.CodeMalformedCheck:      "A word of the rule is no check, and is always false",
	oslopolicy.CodeOperatorInList:      "An element of the list form is an expression, not one check",
	oslopolicy.CodeMapping:             "The rule is a mapping, whose keys alone are read",
	oslopolicy.CodeQuotedMatch:         "The value after the colon includes its quotes",
	oslopolicy.CodeUnknownRule:         "The rule refers to a rule that does not exist",
	oslopolicy.CodeUnknownOperation:    "Keystone has no such operation, so the rule has no effect",
	oslopolicy.CodeUnknownAttribute:    "Keystone does not fill the attribute of the target in",
	oslopolicy.CodeUnknownCredential:   "The credentials of Keystone have no such attribute",
	oslopolicy.CodeUnknownRole:         "Neither Keystone nor the base checks the role, but one with nearly the same name",
	oslopolicy.CodeDeadBranch:          "An alternative of the rule can never match",
	oslopolicy.CodeCycle:               "The rule refers to itself, directly or through others",
	oslopolicy.CodeDuplicateRule:       "A later rule of the same name replaces the rule",
	oslopolicy.CodeUnusedRule:          "Nothing refers to the rule",
	oslopolicy.CodeOverrideObsolete:    "The Keystone of the release has managers of domains by itself",
	oslopolicy.CodeRemoteCheck:         "The rule asks another host, whose answer is unknown",
	oslopolicy.CodeNotCompared:         "Not every request was compared with the base",
	oslopolicy.CodeBroaderThanDefault:  "The rule allows what the base or Keystone's own rule denies",
	oslopolicy.CodeNarrowerThanDefault: "The rule denies what the base or Keystone's own rule allows",
	oslopolicy.CodeEscalation:          "A user who is no administrator can grant a role that is not managed",
}

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
		rules = append(rules, object{"id": code, "shortDescription": object{"text": meanings[code]}, "helpUri": helpURI})
	}
	driver := object{"name": "warrantgate", "version": cli.Version, "rules": rules}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}},
	}
}
