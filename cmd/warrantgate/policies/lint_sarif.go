package policies

import (
	"maps"
	"path/filepath"
	"slices"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/oslopolicy"
)

// The parts of SARIF 2.1.0 (OASIS) that findings need. Its levels error, warning and note are our severities.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"name"`
	}
)

func newSARIF(findings []oslopolicy.Finding) sarifLog {
	codes := map[string]bool{}
	run := sarifRun{Results: []sarifResult{}}
	for _, f := range findings {
		codes[f.Code] = true
		location := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{URI: filepath.ToSlash(f.File)}}}
		if f.Line > 0 { // a region has to begin at line 1 or later
			location.Physical.Region = &sarifRegion{StartLine: f.Line}
		}
		if f.Rule != "" {
			location.Logical = []sarifLogical{{Name: f.Rule}}
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Code, Level: string(f.Severity), Message: sarifText{Text: f.Details()}, Locations: []sarifLocation{location},
		})
	}
	run.Tool.Driver = sarifDriver{Name: "warrantgate", Version: cli.Version, Rules: []sarifRule{}}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: code})
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}
