package main

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

// What Google refuses and mockgcp answers with error 500: a second create of a name. What it lists and mockgcp does not.

// creates are the calls that make something: by a name in the query, in the body, or in the path (PUT).
var creates = []struct {
	host, method string
	path         *regexp.Regexp
	name         func(r *http.Request, body map[string]any) string
}{
	{"pubsub.googleapis.com", http.MethodPut, regexp.MustCompile(`^/v1/projects/[^/]+/topics/[^/:]+$`),
		func(*http.Request, map[string]any) string { return "" }},
	{"logging.googleapis.com", http.MethodPost, regexp.MustCompile(`^/v2/projects/[^/]+/(metrics|sinks)$`),
		func(_ *http.Request, body map[string]any) string { return text(body, "name") }},
	{"artifactregistry.googleapis.com", http.MethodPost, regexp.MustCompile(`^/v1/projects/[^/]+/locations/[^/]+/repositories$`),
		func(r *http.Request, _ map[string]any) string { // gcloud's spelling, and Terraform's
			return r.URL.Query().Get("repositoryId") + r.URL.Query().Get("repository_id")
		}},
	{"monitoring.googleapis.com", http.MethodPost, regexp.MustCompile(`^/v3/projects/[^/]+/services(/[^/]+/serviceLevelObjectives)?$`),
		func(r *http.Request, _ map[string]any) string {
			return r.URL.Query().Get("serviceId") + r.URL.Query().Get("serviceLevelObjectiveId")
		}},
	{"iam.googleapis.com", http.MethodPost, regexp.MustCompile(`^/v1/projects/[^/]+/serviceAccounts$`),
		func(r *http.Request, body map[string]any) string {
			return fmt.Sprintf("%s@%s.iam.gserviceaccount.com", text(body, "accountId"), strings.Split(r.URL.Path, "/")[3])
		}},
	{"iam.googleapis.com", http.MethodPost, regexp.MustCompile(`^/v1/projects/[^/]+/roles$`),
		func(_ *http.Request, body map[string]any) string { return text(body, "roleId") }},
}

// lists are the collections that mockgcp does not list, with the field of the answer.
var lists = map[string]string{
	"logging.googleapis.com/metrics":       "metrics",
	"logging.googleapis.com/sinks":         "sinks",
	"iam.googleapis.com/serviceAccounts":   "accounts",
	"iam.googleapis.com/roles":             "roles",
	"monitoring.googleapis.com/dashboards": "dashboards",
}

var (
	dashboardsPath = regexp.MustCompile(`^/v1/projects/[^/]+/dashboards$`)

	namesPath = regexp.MustCompile(`^/v[12]/projects/[^/]+/([a-zA-Z]+)$`)
	seekPath  = regexp.MustCompile(`^/v1/(projects/[^/]+/subscriptions/[^/:]+):seek$`)
	everMade  sync.Map // addresses
)

func (c *cloud) serveDoubles(w http.ResponseWriter, r *http.Request, body []byte) bool {
	for _, each := range creates {
		if each.host != r.Host || each.method != r.Method || !each.path.MatchString(r.URL.Path) {
			continue
		}
		address := "https://" + r.Host + r.URL.Path
		if name := each.name(r, parse(body)); name != "" {
			address += "/" + name
		} else if each.method == http.MethodPost {
			return false // the mock tells what is missing
		}
		if c.exists(address) {
			exists(w, address)
			return true
		}
		everMade.Store(address, true)
		return false
	}
	if r.Host == "monitoring.googleapis.com" && r.Method == http.MethodPost && dashboardsPath.MatchString(r.URL.Path) {
		c.createDashboard(w, r, body)
		return true
	}
	if found := seekPath.FindStringSubmatch(r.URL.Path); found != nil && r.Host == "pubsub.googleapis.com" {
		if !c.exists("https://pubsub.googleapis.com/v1/" + found[1]) {
			notFound(w, found[1])
		} else {
			answer(w, http.StatusOK, map[string]any{}) // nothing is delivered, so nothing changes
		}
		return true
	}
	if found := namesPath.FindStringSubmatch(r.URL.Path); found != nil && r.Method == http.MethodGet {
		if field := lists[r.Host+"/"+found[1]]; field != "" {
			answer(w, http.StatusOK, map[string]any{field: c.listMade("https://" + r.Host + r.URL.Path + "/")})
			return true
		}
	}
	return false
}

// createDashboard keeps the name that the mock chooses, for the list.
func (c *cloud) createDashboard(w http.ResponseWriter, r *http.Request, body []byte) {
	recorder := newRecorder()
	c.serveMock(recorder, r, body)
	reply := parse(recorder.Body.Bytes())
	if recorder.Code == http.StatusOK {
		everMade.Store("https://"+r.Host+r.URL.Path+"/"+path.Base(text(reply, "name")), true)
	}
	answer(w, recorder.Code, reply)
}

func exists(w http.ResponseWriter, address string) {
	fail(w, http.StatusConflict, "ALREADY_EXISTS", "Resource already exists: "+strings.TrimPrefix(address, "https://"))
}

func (c *cloud) listMade(prefix string) []any {
	found := []any{}
	everMade.Range(func(address, _ any) bool {
		if strings.HasPrefix(address.(string), prefix) {
			// A deleted role is kept for a week, and only who asks for deleted ones sees it in a list.
			if code, reply := c.call(http.MethodGet, address.(string), nil); code == http.StatusOK && reply["deleted"] != true {
				found = append(found, reply)
			}
		}
		return true
	})
	return found
}
