package planted

const dynamoChartVersion = "1.0.2"
