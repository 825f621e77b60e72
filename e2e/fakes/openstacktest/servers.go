package openstacktest

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// usageTime is how Nova writes the times of OS-SRV-USG: in UTC, without saying so.
const usageTime = "2006-01-02T15:04:05.000000"

// answerServer tells a server to the project that may see it. Others' do not exist for it.
func (n *Nova) answerServer(w http.ResponseWriter, projectID, id string) {
	server, found := n.visible(projectID, id)
	if !found {
		writeError(w, http.StatusNotFound, "itemNotFound", "Instance "+id+" could not be found.")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"server": n.details(server)})
}

// answerList lists a page of the project's servers, newest first. A page that is as full as it may be links to the next one,
// even if that is empty.
func (n *Nova) answerList(w http.ResponseWriter, r *http.Request, projectID string) {
	query := r.URL.Query()
	name, err := regexp.Compile(query.Get("name"))
	if err != nil {
		writeError(w, http.StatusBadRequest, "badRequest", "Invalid filter: name is no regular expression")
		return
	}
	servers, limit := n.list(projectID, name.MatchString)
	if wanted := query.Get("limit"); wanted != "" {
		number, err := strconv.Atoi(wanted)
		if err != nil || number < 0 {
			writeError(w, http.StatusBadRequest, "badRequest", "Invalid input for query parameters limit.")
			return
		}
		limit = min(limit, number)
	}
	if marker := query.Get("marker"); marker != "" {
		at := slices.IndexFunc(servers, func(s Server) bool { return s.ID == marker })
		if at < 0 {
			writeError(w, http.StatusBadRequest, "badRequest", "marker ["+marker+"] not found")
			return
		}
		servers = servers[at+1:]
	}
	servers = servers[:min(limit, len(servers))]
	writeJSON(w, http.StatusOK, n.page(servers, limit, query))
}

func (n *Nova) page(servers []Server, limit int, query url.Values) map[string]any {
	shown := make([]map[string]any, 0, len(servers))
	for _, server := range servers {
		shown = append(shown, n.details(server))
	}
	page := map[string]any{"servers": shown}
	if len(servers) > 0 && len(servers) == limit {
		query.Set("marker", servers[len(servers)-1].ID)
		page["servers_links"] = []map[string]string{{"rel": "next", "href": n.server.URL + detailPath + "?" + query.Encode()}}
	}
	return page
}

// details is a server as the API of microversion 2.1 shows it in full.
func (n *Nova) details(server Server) map[string]any {
	metadata := server.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	created := server.Created.UTC()
	return map[string]any{
		"id": server.ID, "name": server.Name, "tenant_id": server.ProjectID, "user_id": server.UserID, "metadata": metadata,
		"status": "ACTIVE", "progress": 0, "created": created.Format(time.RFC3339), "updated": created.Format(time.RFC3339),
		"hostId": "2091634baaccdc4c5a1d57069c833e402921df696b7f970791b12ec6", "accessIPv4": "", "accessIPv6": "",
		"image": "", "flavor": map[string]any{"id": "1", "links": []any{}}, "addresses": map[string]any{},
		"links":    []map[string]string{{"rel": "self", "href": n.server.URL + serversPath + server.ID}},
		"key_name": nil, "config_drive": "", "security_groups": []map[string]string{{"name": "default"}},
		"OS-DCF:diskConfig": "AUTO", "OS-EXT-AZ:availability_zone": "nova",
		"OS-EXT-STS:power_state": 1, "OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": "active",
		"OS-SRV-USG:launched_at": created.Format(usageTime), "OS-SRV-USG:terminated_at": nil,
		"os-extended-volumes:volumes_attached": []any{},
	}
}
